"""Proximal policy optimisation (Schulman et al. 2017), as the implementation that the paper cites does it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

import torch
from torch import Tensor

from mmrs.functional.losses import clipped_policy_loss, clipped_value_loss
from mmrs.functional.ppo_gpu import OldPolicy, choice_slopes, clipped_adam
from mmrs.nets.actor_critic import ActorCritic, WithPull
from mmrs.nets.cuda_graphs import Captured, set_learning_rate, to_device
from mmrs.nets.flat import flatten_parameters
from mmrs.spaces import ObservationSpec


@dataclass(frozen=True)
class PPOConfig:
    """The learner's numbers; unless a section is named they are those of the cited implementation's Atari recipe."""

    learning_rate: float = 2.5e-4
    """Of Adam. # Deviation: Sec. 6.2 prints 0.0025, ten times the cited code's; `paper-literal` has it."""
    linear_decay: bool = True
    """Let the rate fall linearly to 0 over the run."""
    clip: float = 0.1
    """Bound of the probability ratio, and of a value's move."""
    epochs: int = 4
    """Passes over a rollout."""
    minibatches: int = 4
    """Parts a pass is split into."""
    gamma: float = 0.99
    """Discount."""
    gae_lambda: float = 0.95
    """Trace of the advantages (Sec. 6.2)."""
    entropy_weight: float = 0.01
    """Entropy coefficient (Sec. 6.2)."""
    value_weight: float = 0.5
    """Value function coefficient (Sec. 6.2)."""
    clip_values: bool = True
    """Bound how far a value may move in one update."""
    max_grad_norm: float = 0.5
    """Norm the gradient is scaled down to. # Deviation: Sec. 6.2 clips to [-5, 5]; see `grad_value_clip`."""
    grad_value_clip: float | None = None
    """Clip each gradient entry to plus or minus this instead; 5 in Sec. 6.2."""
    adam_eps: float = 1e-5
    """Adam's epsilon."""
    normalise_advantages: Literal["rollout", "minibatch", "none"] = "rollout"
    """What advantages are standardised over: the rollout, as in the cited code, or each minibatch."""
    bf16: bool = False
    """Convolve in bfloat16: faster where the processor has it, and not the same numbers."""


@dataclass(frozen=True)
class Batch:
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


class PPO:
    """Network, optimiser and the clipped objective."""

    def __init__(
        self, network: ActorCritic, observation: ObservationSpec, config: PPOConfig, generator: torch.Generator
    ) -> None:
        self.network, self.observation, self.config, self.generator = network, observation, config, generator
        self.weights = flatten_parameters(network)
        # One fused call on the CPU. On a GPU its kernel gives a single vector to few processors: plain ones are faster.
        fused = not self.weights.is_cuda
        self.optimizer = torch.optim.Adam(
            [self.weights], config.learning_rate, eps=config.adam_eps, fused=fused, foreach=False
        )
        self._batch: Batch | None = None
        # What the kernel knows: a single choice, and advantages that need no other of the minibatch.
        self._one_kernel = len(network.action.choices) == 1 and config.normalise_advantages != "minibatch"
        self._with_pull: WithPull = network.with_pull
        self._captured_step = Captured(self._step, coarse=True)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Distribution parameters and values of raw observations."""
        features = self.network.features(obs)
        if not self.config.bf16:
            out: tuple[Tensor, Tensor] = self.network(features)
            return out
        with torch.autocast(obs.device.type, torch.bfloat16):
            parameters, values = self.network(features)
        return parameters.float(), values.float()

    def update(self, batch: Batch, progress: float) -> dict[str, Tensor]:
        """Learn from a rollout's transitions; `progress` is the share of training done, for the decaying rate.

        Returns measurements, which a GPU may still be working out.
        """
        left = 1.0 - progress if self.config.linear_decay else 1.0
        set_learning_rate(self.optimizer, self.config.learning_rate * left)
        advantages = batch.advantages
        if self.config.normalise_advantages == "rollout":
            advantages = standardised(advantages)
        self._hold(replace(batch, advantages=advantages))
        if not self.config.bf16:
            self._with_pull = self.network.prepared()
        orders = [torch.randperm(len(advantages), generator=self.generator) for _ in range(self.config.epochs)]
        parts = []
        for order in to_device(torch.stack(orders), advantages.device):
            for index in order.tensor_split(self.config.minibatches):
                parts.append(self._captured_step(index).clone())
        names = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "grad_norm")
        return dict(zip(names, torch.stack(parts).mean(0), strict=True))

    def _hold(self, batch: Batch) -> None:
        """Keep the batch; on a GPU always in the same place, where the captured step reads it."""
        held = self._batch
        if held is None or not held.obs.is_cuda or held.obs.shape != batch.obs.shape:
            self._batch, self._captured_step = batch, Captured(self._step, coarse=True)
            return
        for field in fields(Batch):
            getattr(held, field.name).copy_(getattr(batch, field.name))

    @torch.no_grad()
    def _step(self, index: Tensor) -> Tensor:
        """One gradient step on a minibatch; returns its measurements."""
        batch = self._batch
        assert batch is not None and self.weights.grad is not None
        with torch.autocast(index.device.type, torch.bfloat16, enabled=self.config.bf16):
            parameters, values, pull = self._with_pull(self.network.features(batch.obs[index]))
        self.weights.grad.zero_()
        by_parameters, by_values, measured = self._slopes(parameters, values, batch, index)
        pull(by_parameters, by_values)
        norm = self._move()
        return torch.cat([measured.mean(1), norm.view(1)])

    def _slopes(self, parameters: Tensor, values: Tensor, batch: Batch, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Slopes of the objective by what the network says of a minibatch, and five measurements of each transition."""
        config, share = self.config, 1.0 / len(index)
        bound = config.clip if config.clip_values else None
        if parameters.is_cuda and self._one_kernel:
            old = OldPolicy(batch.actions, batch.log_prob, batch.values, batch.returns, batch.advantages)
            weights = {"entropy_weight": config.entropy_weight, "value_weight": config.value_weight}
            found = choice_slopes(parameters, values, old, index, clip=config.clip, value_clip=bound, **weights)
            if found is not None:
                return found
        actions, advantages = batch.actions[index], batch.advantages[index]
        if config.normalise_advantages == "minibatch":
            advantages = standardised(advantages)
        log_prob, entropy = self.network.log_prob(parameters, actions)
        log_ratio = log_prob - batch.log_prob[index]
        ratio = log_ratio.exp()
        policy_loss, by_log_prob = clipped_policy_loss(ratio, advantages, config.clip)
        value_loss, by_values = clipped_value_loss(values, batch.values[index], batch.returns[index], bound)
        by_entropy = -config.entropy_weight * share
        by_parameters = self.network.pull_log_prob(parameters, actions, by_log_prob * share, by_entropy)
        kl = ratio - 1.0 - log_ratio  # unbiased and never negative
        outside = ((ratio - 1.0).abs() > config.clip).float()
        measured = torch.stack([policy_loss, value_loss.sum(1), entropy, kl, outside])
        return by_parameters, by_values * (config.value_weight * share), measured

    def _move(self) -> Tensor:
        """Adam's step with a bounded gradient; returns the norm it had."""
        if self.weights.is_cuda and self.config.grad_value_clip is None:
            norm = clipped_adam(self.weights, self.optimizer, self.config.max_grad_norm)
            if norm is not None:
                return norm
        norm = self._clip_gradient()
        self.optimizer.step()
        return norm

    def _clip_gradient(self) -> Tensor:
        """Bound the gradient; returns the norm it had."""
        gradient = self.weights.grad
        assert gradient is not None
        norm: Tensor = torch.linalg.vector_norm(gradient)
        if self.config.grad_value_clip is not None:
            gradient.clamp_(-self.config.grad_value_clip, self.config.grad_value_clip)
            return norm
        gradient.mul_((self.config.max_grad_norm / (norm + 1e-6)).clamp_(max=1.0))
        return norm


def standardised(advantages: Tensor) -> Tensor:
    """With mean 0 and spread 1, unless there is no spread."""
    return (advantages - advantages.mean()) / (advantages.std(correction=0) + 1e-5)
