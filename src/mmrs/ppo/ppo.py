"""Proximal policy optimization (Schulman et al. 2017), as the implementation that the paper cites does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor

from mmrs.fields import COUNT, FINITE, NOT_NEGATIVE, POSITIVE, SHARE
from mmrs.functional.losses import clipped_policy_loss, clipped_value_loss
from mmrs.nets.actor_critic import ActorCritic
from mmrs.nets.cuda_graphs import CudaGraphed, set_learning_rate, to_device
from mmrs.nets.flat import flatten_parameters


@dataclass(frozen=True)
class PPOConfig:
    """Hyperparameters of PPO. Without a section number, a default is that of the cited implementation for Atari."""

    # Deviation: Sec. 6.2 prints 0.0025, ten times the rate of the cited code.
    learning_rate: Annotated[float, NOT_NEGATIVE] = 2.5e-4
    """Learning rate of Adam. The paper prints 0.0025, ten times that of its code; preset paper-literal has it."""
    linear_decay: bool = True
    """Decay the learning rate linearly to 0 over the run."""
    clip: Annotated[float, POSITIVE] = 0.1
    """Clip range of the probability ratio, and of the change of a value."""
    epochs: Annotated[int, COUNT] = 4
    """Passes over each rollout."""
    minibatches: Annotated[int, COUNT] = 4
    """Minibatches per pass."""
    gamma: Annotated[float, SHARE] = 0.99
    """Discount factor."""
    gae_lambda: Annotated[float, SHARE] = 0.95
    """Lambda of generalized advantage estimation: from 0, one step ahead, to 1, whole returns."""
    entropy_weight: Annotated[float, FINITE] = 0.01
    """Weight of the policy's entropy in the loss. More keeps actions random for longer."""
    value_weight: Annotated[float, NOT_NEGATIVE] = 0.5
    """Weight of the value loss in the loss."""
    clip_values: bool = True
    """Clip the change of a value per update, as in the cited code."""
    # Deviation: Sec. 6.2 clips to [-5, 5], the cited code clips the norm.
    max_grad_norm: Annotated[float, POSITIVE] = 0.5
    """Maximum norm of the gradient. The paper clips each entry instead: see grad-value-clip."""
    grad_value_clip: Annotated[float | None, POSITIVE] = None
    """Clip each entry of the gradient to plus or minus this value instead, as the paper does at 5. None: do not."""
    adam_eps: Annotated[float, POSITIVE] = 1e-5
    """Adam's epsilon."""
    normalize_advantages: Literal["rollout", "minibatch", "none"] = "rollout"
    """Standardize advantages over the rollout, as in the cited code, over each minibatch, or not at all."""
    bf16: bool = False
    """Run convolutions in bfloat16: faster on processors that support it, but results differ."""
    compile: bool = False
    """Compile the loss: the first update takes about a minute, later ones are faster; results differ in rounding."""


class Batch(NamedTuple):
    """What an update learns from: B transitions in any order."""

    obs: Tensor
    """``[B, *obs]``"""
    actions: Tensor
    """``[B, A]`` as the network sampled them."""
    log_prob: Tensor
    """``[B]`` when acting."""
    values: Tensor
    """``[B, heads]`` when acting."""
    returns: Tensor
    """``[B, heads]``"""
    advantages: Tensor
    """``[B]``"""


Metrics = dict[str, Tensor]
Loss = Callable[[ActorCritic, Batch, PPOConfig], tuple[Tensor, Metrics]]
"""A loss of a minibatch, and what to record of it: scalars, in the same order at each call."""


def ppo_loss(network: ActorCritic, batch: Batch, config: PPOConfig) -> tuple[Tensor, Metrics]:
    """The clipped objective: policy, values and entropy (Schulman et al. 2017, Eq. 9, as a loss)."""
    parameters, values = network(batch.obs)
    log_prob, entropy = network.log_prob(parameters, batch.actions)
    log_ratio = log_prob - batch.log_prob
    ratio = log_ratio.exp()
    policy_loss = clipped_policy_loss(ratio, batch.advantages, config.clip).mean()
    value_clip = config.clip if config.clip_values else None
    value_loss = clipped_value_loss(values, batch.values, batch.returns, value_clip).mean(0).sum()
    loss = policy_loss + config.value_weight * value_loss - config.entropy_weight * entropy.mean()
    with torch.no_grad():
        clip_fraction = ((ratio - 1.0).abs() > config.clip).float().mean()
    kl = (ratio - 1.0 - log_ratio).mean()  # unbiased and never negative
    return loss, {
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": entropy.mean(),
        "kl": kl,
        "clip_fraction": clip_fraction,
    }


class PPO:
    """Network, optimizer and loss. On a GPU a gradient step is one captured graph."""

    def __init__(
        self, network: ActorCritic, config: PPOConfig, generator: torch.Generator, loss: Loss = ppo_loss
    ) -> None:
        self.network, self.config, self.generator = network, config, generator
        self.weights = flatten_parameters(network)
        # One fused call on the CPU. On a GPU its kernel gives a single vector to few processors: plain ones are faster.
        fused = not self.weights.is_cuda
        self.optimizer = torch.optim.Adam(
            [self.weights], config.learning_rate, eps=config.adam_eps, fused=fused, foreach=False
        )
        self.loss: Loss = torch.compile(loss, dynamic=False) if config.compile else loss
        self.metric_names: tuple[str, ...] = ()
        self._graphed_step = CudaGraphed(self._gradient_step, allow_tf32=True)

    def update(self, batch: Batch, progress: float) -> Metrics:
        """Learn from a rollout's transitions. `progress` is the share of training done, for the decaying rate.

        Returns means over all minibatches. A GPU may still be computing them.
        """
        config = self.config
        set_learning_rate(self.optimizer, config.learning_rate * (1.0 - progress if config.linear_decay else 1.0))
        if config.normalize_advantages == "rollout":
            batch = batch._replace(advantages=standardize(batch.advantages))
        orders = [torch.randperm(len(batch.advantages), generator=self.generator) for _ in range(config.epochs)]
        measured = []
        for order in to_device(torch.stack(orders), batch.advantages.device):
            shuffled = (column[order].tensor_split(config.minibatches) for column in batch)
            for minibatch in zip(*shuffled, strict=True):
                measured.append(self._graphed_step(*minibatch).clone())
        return dict(zip(self.metric_names, torch.stack(measured).mean(0), strict=True))

    def _gradient_step(self, *columns: Tensor) -> Tensor:
        """One gradient step on a minibatch; returns its metrics."""
        batch = Batch(*columns)
        if self.config.normalize_advantages == "minibatch":
            batch = batch._replace(advantages=standardize(batch.advantages))
        loss, metrics = self.loss(self.network, batch, self.config)
        self.gradient.zero_()
        loss.backward()
        grad_norm = self._clip_gradient()
        self.optimizer.step()
        self.metric_names = (*metrics, "grad_norm")
        return torch.stack([*metrics.values(), grad_norm]).detach()

    @property
    def gradient(self) -> Tensor:
        """Gradient of all weights, as one vector."""
        assert self.weights.grad is not None, "flatten_parameters makes it"
        return self.weights.grad

    @torch.no_grad()
    def _clip_gradient(self) -> Tensor:
        """Bound the gradient; returns the norm it had."""
        norm: Tensor = torch.linalg.vector_norm(self.gradient)
        if self.config.grad_value_clip is not None:
            self.gradient.clamp_(-self.config.grad_value_clip, self.config.grad_value_clip)
        else:
            self.gradient.mul_((self.config.max_grad_norm / (norm + 1e-6)).clamp_(max=1.0))
        return norm


def standardize(advantages: Tensor) -> Tensor:
    """Advantages with mean 0 and standard deviation 1, unless all are equal."""
    return (advantages - advantages.mean()) / (advantages.std(correction=0) + 1e-5)
