"""The gradients of PPO's objective, and Adam's step, in Triton; imported only where there is Triton."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _between(x, low, high):  # type: ignore[no-untyped-def]
    """The nearest number that is not outside; NaN stays NaN, so that the metrics show it."""
    x = tl.maximum(x, low, propagate_nan=tl.PropagateNan.ALL)
    return tl.minimum(x, high, propagate_nan=tl.PropagateNan.ALL)


@triton.jit  # type: ignore[untyped-decorator]
def ppo_gradients(  # type: ignore[no-untyped-def]
    logits, values, index, actions, old_log_prob, old_values, returns, advantages,
    grad_logits, grad_values, metrics,
    batch, width, logits_stride, values_stride, clip, value_clip, grad_entropy, value_weight,
    heads: tl.constexpr, rows: tl.constexpr, room: tl.constexpr,
):  # fmt: skip
    """`mmrs.functional.losses` and `distributions.categorical_gradient` for one component, a program per block."""
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    column = tl.arange(0, room)
    inside = row < batch
    both = inside[:, None] & (column < width)[None, :]
    source = tl.load(index + row, mask=inside, other=0)
    x = tl.load(logits + row[:, None] * logits_stride + column[None, :], mask=both, other=float("-inf"))
    x -= tl.max(tl.where(inside[:, None], x, 0.0), 1)[:, None]
    total = tl.sum(tl.where(both, tl.exp(x), 0.0), 1)
    logs = tl.where(both, x - tl.log(total)[:, None], 0.0)
    p = tl.where(both, tl.exp(logs), 0.0)
    chosen = column[None, :] == tl.load(actions + source, mask=inside, other=0)[:, None]
    log_ratio = tl.sum(tl.where(chosen, logs, 0.0), 1) - tl.load(old_log_prob + source, mask=inside, other=0.0)
    ratio = tl.exp(log_ratio)
    order = tl.sum(p * logs, 1)
    advantage = tl.load(advantages + source, mask=inside, other=0.0)
    gained = ratio * advantage
    bounded = _between(ratio, 1.0 - clip, 1.0 + clip) * advantage
    grad_log_prob = tl.where(gained <= bounded, -gained, 0.0) / batch
    gradient = p * (grad_entropy / batch * (order[:, None] - logs) - grad_log_prob[:, None])
    gradient += tl.where(chosen, grad_log_prob[:, None], 0.0)
    tl.store(grad_logits + row[:, None] * width + column[None, :], gradient, mask=both)
    value_loss = tl.zeros([rows], tl.float32)
    for head in tl.static_range(heads):
        value = tl.load(values + row * values_stride + head, mask=inside, other=0.0)
        old = tl.load(old_values + source * heads + head, mask=inside, other=0.0)
        wanted = tl.load(returns + source * heads + head, mask=inside, other=0.0)
        error, moved = value - wanted, value - old
        near = old + _between(moved, -value_clip, value_clip) - wanted
        free = tl.abs(error) >= tl.abs(near)
        value_loss += 0.5 * tl.where(free, error * error, near * near)
        grad_value = tl.where(free | (tl.abs(moved) <= value_clip), error, 0.0) * (value_weight / batch)
        tl.store(grad_values + row * heads + head, grad_value, mask=inside)
    tl.store(metrics + row, -tl.minimum(gained, bounded, propagate_nan=tl.PropagateNan.ALL), mask=inside)
    tl.store(metrics + batch + row, value_loss, mask=inside)
    tl.store(metrics + 2 * batch + row, -order, mask=inside)
    tl.store(metrics + 3 * batch + row, ratio - 1.0 - log_ratio, mask=inside)
    tl.store(metrics + 4 * batch + row, (tl.abs(ratio - 1.0) > clip).to(tl.float32), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def clipped_adam(  # type: ignore[no-untyped-def]
    weights, gradient, mean, square, norm, step, rate,
    size, most, forget1, forget2, log_keep1, log_keep2, eps, block: tl.constexpr,
):  # fmt: skip
    """Adam's step with the gradient scaled down to a norm; `step` includes this step.

    The caller passes 1 - beta and log(beta): computed here, in single precision, they would be off by 1e-5.
    """
    index = tl.program_id(0) * block + tl.arange(0, block)
    inside = index < size
    scale = tl.minimum(most / (tl.load(norm) + 1e-6), 1.0, propagate_nan=tl.PropagateNan.ALL)
    g = tl.load(gradient + index, mask=inside, other=0.0) * scale
    m = tl.load(mean + index, mask=inside, other=0.0)
    v = tl.load(square + index, mask=inside, other=0.0)
    m += forget1 * (g - m)
    v += forget2 * (g * g - v)
    count = tl.load(step).to(tl.float64)
    unbiased1 = (1.0 - tl.exp(count * log_keep1)).to(tl.float32)
    unbiased2 = (1.0 - tl.exp(count * log_keep2)).to(tl.float32)
    change = tl.load(rate) / unbiased1 * m / (tl.sqrt(v / unbiased2) + eps)
    w = tl.load(weights + index, mask=inside, other=0.0)
    tl.store(weights + index, w - change, mask=inside)
    tl.store(mean + index, m, mask=inside)
    tl.store(square + index, v, mask=inside)
