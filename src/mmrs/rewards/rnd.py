"""RND: random network distillation (Burda et al. 2019; Appendix C.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from mmrs.fields import COUNT, NOT_NEGATIVE, POSITIVE
from mmrs.functional.losses import distillation_error
from mmrs.nets.cuda_graphs import CudaGraphed
from mmrs.nets.encoders import chunked, make_encoder, orthogonal_init, seeded_init
from mmrs.nets.normalization import InputNorm
from mmrs.rewards.base import IntrinsicReward, Memory, Metrics, Terms
from mmrs.rewards.options import configured
from mmrs.rewards.training import decay_learning_rate, gradient_step, make_adam, minibatches
from mmrs.rollout import Rollout


@dataclass(frozen=True)
class RNDConfig:
    """Options of RND."""

    latent_dim: Annotated[int, COUNT] = 512
    """Size of the embedding (512 in Burda et al.)."""
    extra_layers: Annotated[int, NOT_NEGATIVE] = 2
    """Dense layers the predictor has beyond the target (2 in Burda et al.)."""
    learning_rate: Annotated[float, POSITIVE] = 1e-4
    """Learning rate of Adam."""
    total_updates: Annotated[int | None, COUNT] = None
    """Updates over which the learning rate falls linearly to 0. None: constant; in `mmrs train`: those of the run."""
    batch_size: Annotated[int, COUNT] = 256
    """States per gradient step."""
    epochs: Annotated[int, COUNT] = 1
    """Passes over the rollout per update."""
    clip: Annotated[float, POSITIVE] = 5.0
    """Largest absolute value of a normalized observation."""


class RND(IntrinsicReward):
    """``‖ĥ(s') − h(s')‖²``: error of a trained network that predicts a fixed random one, at the successor state."""

    causal = True

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        config: RNDConfig | None = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        """Args:
        observation_space: Box or Discrete.
        action_space: any supported space.
        config: the options; None: the defaults.
        seed: seed of weights and minibatches.
        **options: fields of `RNDConfig` to replace.
        """
        super().__init__(observation_space, action_space, seed=seed)
        self.config = config = configured("rnd", RNDConfig, config, options)
        spec, latent_dim = self.observation_spec, config.latent_dim
        self.norm = InputNorm(spec, config.clip)
        with seeded_init(self.generator):
            self.target = make_encoder(spec, latent_dim, normalized=True).requires_grad_(False)
            layers: list[nn.Module] = [make_encoder(spec, latent_dim, normalized=True)]
            for _ in range(config.extra_layers):
                layers += [nn.ReLU(), orthogonal_init(nn.Linear(latent_dim, latent_dim))]
            self.predictor = nn.Sequential(*layers)
        self.optimizer = make_adam(self.predictor.parameters(), config.learning_rate, config.total_updates)
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
        decay_learning_rate(self, self.config.learning_rate, self.config.total_updates)
        successors = torch.unique(rollout.next_state_index[rollout.valid])
        self.norm.observe(rollout.states[successors])
        losses = []
        for _ in range(self.config.epochs):
            for index in minibatches(successors, self.config.batch_size, self.generator):
                losses.append(self._captured_step(rollout.states[index]).clone())
        return {"rnd_loss": torch.stack(losses).mean()}

    def _step(self, obs: Tensor) -> Tensor:
        """One gradient step on a batch; returns its loss."""
        loss = self._error(obs).mean()  # Eq. (23)
        gradient_step(self, loss)
        return loss.detach()
