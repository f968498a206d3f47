"""The slopes of PPO's objective, and Adam's step, in Triton; imported only where there is Triton."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _between(x, low, high):  # type: ignore[no-untyped-def]
    """The nearest number that is not outside; NaN stays NaN, so that the record tells."""
    x = tl.maximum(x, low, propagate_nan=tl.PropagateNan.ALL)
    return tl.minimum(x, high, propagate_nan=tl.PropagateNan.ALL)


@triton.jit  # type: ignore[untyped-decorator]
def choice_slopes(  # type: ignore[no-untyped-def]
    logits, values, index, actions, old_log_prob, old_values, returns, advantages,
    by_logits, by_values, told,
    batch, width, logits_stride, values_stride, clip, value_clip, by_entropy, value_weight,
    heads: tl.constexpr, rows: tl.constexpr, room: tl.constexpr,
):  # fmt: skip
    """`mmrs.functional.losses` and `distributions.choice_slope` for a single choice, a program for some rows."""
    row = tl.program_id(0) * rows + tl.arange(0, rows)
    column = tl.arange(0, room)
    inside = row < batch
    both = inside[:, None] & (column < width)[None, :]
    place = tl.load(index + row, mask=inside, other=0)
    x = tl.load(logits + row[:, None] * logits_stride + column[None, :], mask=both, other=float("-inf"))
    x -= tl.max(tl.where(inside[:, None], x, 0.0), 1)[:, None]
    total = tl.sum(tl.where(both, tl.exp(x), 0.0), 1)
    logs = tl.where(both, x - tl.log(total)[:, None], 0.0)
    p = tl.where(both, tl.exp(logs), 0.0)
    chosen = column[None, :] == tl.load(actions + place, mask=inside, other=0)[:, None]
    log_ratio = tl.sum(tl.where(chosen, logs, 0.0), 1) - tl.load(old_log_prob + place, mask=inside, other=0.0)
    ratio = tl.exp(log_ratio)
    order = tl.sum(p * logs, 1)
    advantage = tl.load(advantages + place, mask=inside, other=0.0)
    gained = ratio * advantage
    bounded = _between(ratio, 1.0 - clip, 1.0 + clip) * advantage
    by_log_prob = tl.where(gained <= bounded, -gained, 0.0) / batch
    slope = p * (by_entropy / batch * (order[:, None] - logs) - by_log_prob[:, None])
    slope += tl.where(chosen, by_log_prob[:, None], 0.0)
    tl.store(by_logits + row[:, None] * width + column[None, :], slope, mask=both)
    value_loss = tl.zeros([rows], tl.float32)
    for head in tl.static_range(heads):
        value = tl.load(values + row * values_stride + head, mask=inside, other=0.0)
        old = tl.load(old_values + place * heads + head, mask=inside, other=0.0)
        wanted = tl.load(returns + place * heads + head, mask=inside, other=0.0)
        error, moved = value - wanted, value - old
        near = old + _between(moved, -value_clip, value_clip) - wanted
        free = tl.abs(error) >= tl.abs(near)
        value_loss += 0.5 * tl.where(free, error * error, near * near)
        by_value = tl.where(free | (tl.abs(moved) <= value_clip), error, 0.0) * (value_weight / batch)
        tl.store(by_values + row * heads + head, by_value, mask=inside)
    tl.store(told + row, -tl.minimum(gained, bounded, propagate_nan=tl.PropagateNan.ALL), mask=inside)
    tl.store(told + batch + row, value_loss, mask=inside)
    tl.store(told + 2 * batch + row, -order, mask=inside)
    tl.store(told + 3 * batch + row, ratio - 1.0 - log_ratio, mask=inside)
    tl.store(told + 4 * batch + row, (tl.abs(ratio - 1.0) > clip).to(tl.float32), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def clipped_adam(  # type: ignore[no-untyped-def]
    weights, gradient, mean, square, norm, step, rate,
    size, most, forget1, forget2, log_keep1, log_keep2, eps, block: tl.constexpr,
):  # fmt: skip
    """Adam's step with the gradient scaled down to a norm; `step` counts this one already.

    Of each beta come 1 - beta and its logarithm: worked out here, in single precision, they would be off by 1e-5.
    """
    place = tl.program_id(0) * block + tl.arange(0, block)
    inside = place < size
    scale = tl.minimum(most / (tl.load(norm) + 1e-6), 1.0, propagate_nan=tl.PropagateNan.ALL)
    g = tl.load(gradient + place, mask=inside, other=0.0) * scale
    m = tl.load(mean + place, mask=inside, other=0.0)
    v = tl.load(square + place, mask=inside, other=0.0)
    m += forget1 * (g - m)
    v += forget2 * (g * g - v)
    count = tl.load(step).to(tl.float64)
    unbiased1 = (1.0 - tl.exp(count * log_keep1)).to(tl.float32)
    unbiased2 = (1.0 - tl.exp(count * log_keep2)).to(tl.float32)
    change = tl.load(rate) / unbiased1 * m / (tl.sqrt(v / unbiased2) + eps)
    w = tl.load(weights + place, mask=inside, other=0.0)
    tl.store(weights + place, w - change, mask=inside)
    tl.store(mean + place, m, mask=inside)
    tl.store(square + place, v, mask=inside)
