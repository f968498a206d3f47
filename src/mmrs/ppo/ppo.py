"""Proximal policy optimization (Schulman et al. 2017), as in the implementation that the paper cites."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

import torch
from torch import Tensor

from mmrs.functional.losses import clipped_policy_loss, clipped_value_loss
from mmrs.functional.ppo_gpu import OldPolicy, clipped_adam, ppo_gradients
from mmrs.nets.actor_critic import ActorCritic, ForwardWithVJP
from mmrs.nets.cuda_graphs import CudaGraphed, set_learning_rate, to_device
from mmrs.nets.flat import flatten_parameters
from mmrs.spaces import ObservationSpec


@dataclass(frozen=True)
class PPOConfig:
    """Hyperparameters of PPO. Without a section number, a default is that of the cited implementation for Atari."""

    # Deviation: Sec. 6.2 prints 0.0025, ten times the rate of the cited code.
    learning_rate: float = 2.5e-4
    """Learning rate of Adam. Sec. 6.2 prints 0.0025, ten times that of the cited code; preset paper-literal has it."""
    linear_decay: bool = True
    """Decay the learning rate linearly to 0 over the run."""
    clip: float = 0.1
    """Clip range of the probability ratio, and of the change of a value."""
    epochs: int = 4
    """Passes over each rollout."""
    minibatches: int = 4
    """Minibatches per pass."""
    gamma: float = 0.99
    """Discount factor."""
    gae_lambda: float = 0.95
    """Lambda of generalized advantage estimation (Sec. 6.2)."""
    entropy_weight: float = 0.01
    """Entropy coefficient (Sec. 6.2)."""
    value_weight: float = 0.5
    """Value function coefficient (Sec. 6.2)."""
    clip_values: bool = True
    """Clip the change of a value per update, as in the cited code."""
    # Deviation: Sec. 6.2 clips to [-5, 5], the cited code clips the norm.
    max_grad_norm: float = 0.5
    """Maximum norm of the gradient. Sec. 6.2 clips each entry instead: see grad-value-clip."""
    grad_value_clip: float | None = None
    """Clip each entry of the gradient to plus or minus this value instead; 5 in Sec. 6.2."""
    adam_eps: float = 1e-5
    """Adam's epsilon."""
    normalize_advantages: Literal["rollout", "minibatch", "none"] = "rollout"
    """Standardize advantages over the rollout, as in the cited code, over each minibatch, or not at all."""
    bf16: bool = False
    """Run convolutions in bfloat16: faster on processors that support it, but results differ."""


@dataclass(frozen=True)
class Batch:
    """The data of an update: B transitions in any order."""

    obs: Tensor
    """``[B, *obs]``"""
    actions: Tensor
    """``[B, A]``, as sampled by the network."""
    log_prob: Tensor
    """``[B]``, when the action was taken."""
    values: Tensor
    """``[B, heads]``, when the action was taken."""
    returns: Tensor
    """``[B, heads]``"""
    advantages: Tensor
    """``[B]``"""


class PPO:
    """Network, optimizer and the clipped objective."""

    def __init__(
        self, network: ActorCritic, observation: ObservationSpec, config: PPOConfig, generator: torch.Generator
    ) -> None:
        self.network, self.observation, self.config, self.generator = network, observation, config, generator
        self.weights = flatten_parameters(network)
        # Fused on the CPU only: on a GPU the fused kernel runs one vector on few multiprocessors and is slower.
        fused = not self.weights.is_cuda
        self.optimizer = torch.optim.Adam(
            [self.weights], config.learning_rate, eps=config.adam_eps, fused=fused, foreach=False
        )
        self._batch: Batch | None = None
        # The kernel handles a single discrete action, and no advantages that are normalized over the minibatch.
        self._one_kernel = len(network.action.nvec) == 1 and config.normalize_advantages != "minibatch"
        self._with_vjp: ForwardWithVJP = network.with_vjp
        self._captured_step = CudaGraphed(self._step, allow_tf32=True)

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
        """Learn from a rollout's transitions; `progress` is the finished share of training, for the learning rate.

        Returns metrics, which a GPU may still be computing.
        """
        left = 1.0 - progress if self.config.linear_decay else 1.0
        set_learning_rate(self.optimizer, self.config.learning_rate * left)
        advantages = batch.advantages
        if self.config.normalize_advantages == "rollout":
            advantages = standardize(advantages)
        self._load_batch(replace(batch, advantages=advantages))
        if not self.config.bf16:
            self._with_vjp = self.network.prepared()
        orders = [torch.randperm(len(advantages), generator=self.generator) for _ in range(self.config.epochs)]
        parts = []
        for order in to_device(torch.stack(orders), advantages.device):
            for index in order.tensor_split(self.config.minibatches):
                parts.append(self._captured_step(index).clone())
        names = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "grad_norm")
        return dict(zip(names, torch.stack(parts).mean(0), strict=True))

    def _load_batch(self, batch: Batch) -> None:
        """Keep the batch; on a GPU copy it to the buffers that the captured step reads."""
        held = self._batch
        if held is None or not held.obs.is_cuda or held.obs.shape != batch.obs.shape:
            self._batch, self._captured_step = batch, CudaGraphed(self._step, allow_tf32=True)
            return
        for field in fields(Batch):
            getattr(held, field.name).copy_(getattr(batch, field.name))

    @torch.no_grad()
    def _step(self, index: Tensor) -> Tensor:
        """One gradient step on a minibatch; returns its metrics."""
        batch = self._batch
        assert batch is not None and self.weights.grad is not None
        with torch.autocast(index.device.type, torch.bfloat16, enabled=self.config.bf16):
            parameters, values, vjp = self._with_vjp(self.network.features(batch.obs[index]))
        self.weights.grad.zero_()
        grad_parameters, grad_values, metrics = self._loss_gradients(parameters, values, batch, index)
        vjp(grad_parameters, grad_values)
        norm = self._optimizer_step()
        return torch.cat([metrics.mean(1), norm.view(1)])

    def _loss_gradients(
        self, parameters: Tensor, values: Tensor, batch: Batch, index: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of the objective with respect to the network's outputs, and five metrics per transition."""
        config, share = self.config, 1.0 / len(index)
        bound = config.clip if config.clip_values else None
        if parameters.is_cuda and self._one_kernel:
            old = OldPolicy(batch.actions, batch.log_prob, batch.values, batch.returns, batch.advantages)
            weights = {"entropy_weight": config.entropy_weight, "value_weight": config.value_weight}
            found = ppo_gradients(parameters, values, old, index, clip=config.clip, value_clip=bound, **weights)
            if found is not None:
                return found
        actions, advantages = batch.actions[index], batch.advantages[index]
        if config.normalize_advantages == "minibatch":
            advantages = standardize(advantages)
        log_prob, entropy = self.network.log_prob(parameters, actions)
        log_ratio = log_prob - batch.log_prob[index]
        ratio = log_ratio.exp()
        policy_loss, grad_log_prob = clipped_policy_loss(ratio, advantages, config.clip)
        value_loss, grad_values = clipped_value_loss(values, batch.values[index], batch.returns[index], bound)
        grad_entropy = -config.entropy_weight * share
        grad_parameters = self.network.vjp_log_prob(parameters, actions, grad_log_prob * share, grad_entropy)
        kl = ratio - 1.0 - log_ratio  # unbiased and never negative
        outside = ((ratio - 1.0).abs() > config.clip).float()
        metrics = torch.stack([policy_loss, value_loss.sum(1), entropy, kl, outside])
        return grad_parameters, grad_values * (config.value_weight * share), metrics

    def _optimizer_step(self) -> Tensor:
        """A step of Adam with the clipped gradient; returns the norm before clipping."""
        if self.weights.is_cuda and self.config.grad_value_clip is None:
            norm = clipped_adam(self.weights, self.optimizer, self.config.max_grad_norm)
            if norm is not None:
                return norm
        norm = self._clip_gradient()
        self.optimizer.step()
        return norm

    def _clip_gradient(self) -> Tensor:
        """Clip the gradient; returns its norm before."""
        gradient = self.weights.grad
        assert gradient is not None
        norm: Tensor = torch.linalg.vector_norm(gradient)
        if self.config.grad_value_clip is not None:
            gradient.clamp_(-self.config.grad_value_clip, self.config.grad_value_clip)
            return norm
        gradient.mul_((self.config.max_grad_norm / (norm + 1e-6)).clamp_(max=1.0))
        return norm


def standardize(advantages: Tensor) -> Tensor:
    """Shift to mean 0 and scale to standard deviation 1; constant advantages become 0."""
    return (advantages - advantages.mean()) / (advantages.std(correction=0) + 1e-5)
