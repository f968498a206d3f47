"""RND: random network distillation (Burda et al. 2019; Appendix C.3)."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from mmrs.errors import InputError
from mmrs.functional.losses import distillation_error
from mmrs.nets.cuda_graphs import CudaGraphed
from mmrs.nets.encoders import chunked, make_encoder, orthogonal_init, seeded_init
from mmrs.nets.normalization import InputNorm
from mmrs.rewards.base import IntrinsicReward, Memory, Metrics, Terms
from mmrs.rewards.options import require_counts
from mmrs.rewards.training import decay_learning_rate, gradient_step, make_adam, minibatches
from mmrs.rollout import Rollout


class RND(IntrinsicReward):
    """``‖ĥ(s') − h(s')‖²``: error of a trained network that predicts a fixed random one, at the successor state."""

    causal = True

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        latent_dim: int = 512,
        extra_layers: int = 2,
        learning_rate: float = 1e-4,
        total_updates: int | None = None,
        batch_size: int = 256,
        epochs: int = 1,
        clip: float = 5.0,
        seed: int = 0,
    ) -> None:
        """Args:
        observation_space: Box or Discrete.
        action_space: any supported space.
        latent_dim: size of the embedding (512 in Burda et al.).
        extra_layers: dense layers the predictor has beyond the target (2 in Burda et al.).
        learning_rate: learning rate of Adam.
        total_updates: updates over which the learning rate falls linearly to 0; None: constant.
        batch_size: states per gradient step.
        epochs: passes over the rollout per update.
        clip: largest absolute value of a normalized observation.
        seed: seed of weights and minibatches.
        """
        super().__init__(observation_space, action_space, seed=seed)
        require_counts("rnd", latent_dim=latent_dim, batch_size=batch_size, epochs=epochs)
        require_counts("rnd", minimum=0, extra_layers=extra_layers)
        if not clip > 0:
            raise InputError(f"rnd(clip={clip!r}): expected a positive number.")
        self.learning_rate, self.total_updates = learning_rate, total_updates
        self.batch_size, self.epochs = batch_size, epochs
        spec = self.observation_spec
        self.norm = InputNorm(spec, clip)
        with seeded_init(self.generator):
            self.target = make_encoder(spec, latent_dim, normalized=True).requires_grad_(False)
            layers: list[nn.Module] = [make_encoder(spec, latent_dim, normalized=True)]
            for _ in range(extra_layers):
                layers += [nn.ReLU(), orthogonal_init(nn.Linear(latent_dim, latent_dim))]
            self.predictor = nn.Sequential(*layers)
        self.optimizer = make_adam(self.predictor.parameters(), learning_rate, total_updates)
        self._captured_step = CudaGraphed(self._step)

    def score(self, rollout: Rollout, memory: Memory) -> tuple[Terms, Memory]:
        """The prediction error at each true successor."""
        _, error = rollout.map_pairs(lambda states: chunked(self._error, states))
        return {"rnd": error}, memory  # Eq. (24)

    def _error(self, obs: Tensor) -> Tensor:
        x = self.norm(self.observation_spec.features(obs))
        return distillation_error(self.predictor(x), self.target(x))

    def learn(self, rollout: Rollout) -> Metrics:
        """Update the input statistics, then train the predictor.

        # Deviation: Eq. (23) trains on s_t while Eq. (24) is the bonus of s_{t+1}. We train on s_{t+1}: otherwise the
        # last state of an episode would stay novel forever.
        """
        decay_learning_rate(self, self.learning_rate, self.total_updates)
        successors = torch.unique(rollout.next_state_index[rollout.valid])
        self.norm.observe(rollout.states[successors])
        losses = []
        for _ in range(self.epochs):
            for index in minibatches(successors, self.batch_size, self.generator):
                losses.append(self._captured_step(rollout.states[index]).clone())
        return {"rnd_loss": torch.stack(losses).mean()}

    def _step(self, obs: Tensor) -> Tensor:
        """One gradient step on a batch; returns its loss."""
        loss = self._error(obs).mean()  # Eq. (23)
        gradient_step(self, loss)
        return loss.detach()
