"""Landmark fairness: the gain of Jain's index over a codebook of landmark observations that lasts the whole run."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor

from mmrs.functional.codebook import confirmed_states, insert_landmarks, nearest_landmark
from mmrs.nets.encoders import seeded_init
from mmrs.nets.normalization import ControllabilityNorm
from mmrs.rewards.base import IntrinsicReward, Memory, Metrics, Terms
from mmrs.rewards.embeddings import Embedding, InverseEmbedding, RandomEmbedding, VAEEmbedding
from mmrs.rewards.landmarks_config import LandmarkConfig
from mmrs.rewards.options import configured
from mmrs.rewards.training import (
    decay_learning_rate,
    gradient_step,
    learn_controllability,
    make_adam,
    update_running_mean,
)
from mmrs.rewards.visits import CountedVisits, count_visits, initial_counts
from mmrs.rollout import Rollout
from mmrs.segments import VisitSlots

REMAPPED_UPDATES = 32
"""Updates for which counts of a running episode follow merged landmarks; older counts are dropped."""
STEP_MOMENTUM = 0.95


class LandmarkFairness(IntrinsicReward):
    """``K (J(t+1) − J(t)) / (1 + p/Σp²)``: gain of the fairness of an episode's visits to landmarks, times a weight
    that falls with the landmark's share p of all visits in the run.

    Landmarks are raw observations, so a trained encoder can embed them again. Only `update` changes the codebook. The
    bonus of a rollout uses the codebook of the previous update, so it is causal. Merges must also reach the counts of
    running episodes, which are part of the memory. For each of the last updates the module therefore keeps a map from
    the landmarks of that update to the current ones, and `compute` applies it to the counts in memory.
    """

    causal = True
    landmarks: Tensor
    embedded: Tensor
    visit_count: Tensor
    """``[K]``: visits in the whole run."""
    used: Tensor
    """``[K]`` bool: slots that hold a landmark."""
    remap: Tensor
    """``[REMAPPED_UPDATES, K]``: current slot of each landmark, by the number of updates since."""
    step_sq_dist: Tensor
    """Running mean of the squared distance of a step."""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        config: LandmarkConfig | None = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        """Args:
        observation_space: Box or Discrete.
        action_space: any supported space.
        config: the options; None: the defaults.
        seed: seed of weights and minibatches.
        **options: fields of `LandmarkConfig` to replace.
        """
        super().__init__(observation_space, action_space, seed=seed)
        self.config = config = configured("landmarks", LandmarkConfig, config, options)
        dim = config.latent_dim or (16 if config.encoder == "vae" else 32)
        with seeded_init(self.generator):
            self.embedding = self._make_embedding(dim)
        if self.embedding.trained:
            self.optimizer = make_adam(self.embedding.parameters(), config.learning_rate, config.total_updates)
        spec, k = self.observation_spec, config.k
        self.register_buffer("landmarks", torch.full((k, *spec.shape), spec.start, dtype=spec.dtype))
        self.register_buffer("embedded", torch.zeros(k, dim))
        self.register_buffer("visit_count", torch.zeros(k, dtype=torch.int64))
        self.register_buffer("used", torch.zeros(k, dtype=torch.bool))
        self.register_buffer("remap", torch.arange(k).repeat(REMAPPED_UPDATES, 1))
        self.register_buffer("step_sq_dist", torch.zeros((), dtype=torch.float64))

    def _make_embedding(self, dim: int) -> Embedding:
        config, spec = self.config, self.observation_spec
        if config.encoder == "vae":
            return VAEEmbedding(spec, dim, config.decoder_variance, scale=config.input_scale)
        if config.encoder == "inverse":
            return InverseEmbedding(spec, self.action_spec, dim, scale=config.input_scale)
        return RandomEmbedding(spec, dim, scale=config.input_scale)

    # --- the reward -------------------------------------------------------------------------------------------------

    def score(self, rollout: Rollout, memory: Memory) -> tuple[Terms, Memory]:
        """Bonus of the landmark that each step reaches, times its lifelong weight."""
        label = self._assign(rollout.states)
        before, after = label[rollout.state_index], label[rollout.next_state_index]
        counts = {"counts": self._remap_counts(memory), "starts_episode": memory["starts_episode"]}
        visits, counts = count_visits(rollout, before, after, counts, scope="episode")
        terms = {"landmarks": (self._episode_bonus(visits) * self._lifelong_weight()[after]).float()}
        if self.config.lambda_l:
            assert isinstance(self.embedding, VAEEmbedding), "checked with the options"
            terms["local"] = self.config.lambda_l * self.embedding.novelty(rollout.states)[rollout.state_index]
        return terms, counts | {"version": torch.full_like(memory["version"], self.updates)}

    def _assign(self, obs: Tensor) -> Tensor:
        """Slots ``[B]`` of the landmarks nearest to observations ``[B, *obs]``."""
        return nearest_landmark(self.embedding(obs), self.embedded, self.used)[0]

    def _remap_counts(self, memory: Memory) -> Tensor:
        """Counts ``[N, K]`` of the memory, moved to the current slots of their landmarks."""
        age = (self.updates - memory["version"]).clamp_min(0)
        known = (age < REMAPPED_UPDATES).unsqueeze(1)
        remap = self.remap[age.clamp_max(REMAPPED_UPDATES - 1)]
        counts: Tensor = memory["counts"]
        return torch.zeros_like(counts).scatter_add(1, remap, counts * known)

    def _episode_bonus(self, visits: CountedVisits) -> Tensor:
        """Bonus ``[T, N]`` before the lifelong weight, float64."""
        bonus, k = self.config.bonus, self.config.k
        if bonus in ("fairness", "clipped"):
            j_before, j_after = visits.jain_index(k)
            change = k * (j_after - j_before)  # Eq. (11) with a discount of 1; never across a reset
            return change if bonus == "fairness" else change.clamp_min(0.0)
        earlier = VisitSlots.after(visits.curve.earlier)
        if bonus == "count":
            return (earlier.double() + 1.0).rsqrt()
        return (earlier == 0).double() if bonus == "first" else torch.ones_like(earlier, dtype=torch.float64)

    def _lifelong_weight(self) -> Tensor:
        """Weight ``[K]`` of each landmark, float64; 1 if it was never visited."""
        visits = self.visit_count.double()
        if self.config.lifelong_weight == "none":
            return torch.ones_like(visits)
        if self.config.lifelong_weight == "count":
            return visits.clamp_min(1.0).rsqrt()
        share = visits / visits.sum().clamp_min(1.0)
        return 1.0 / (1.0 + share / share.square().sum().clamp_min(1e-12))

    def initial_memory(self, num_envs: int, device: torch.device) -> Memory:
        """Memory without visits, for the current codebook."""
        version = torch.full((num_envs,), self.updates, dtype=torch.int64, device=device)
        return initial_counts(num_envs, self.config.k, device) | {"version": version}

    # --- learning ---------------------------------------------------------------------------------------------------

    def learn(self, rollout: Rollout) -> Metrics:
        """Train the encoder, embed the landmarks again, insert new ones, and count the visits of the rollout."""
        self._update_norm(rollout)
        metrics = self._train_embedding(rollout) if self.embedding.trained else {}
        with torch.no_grad():
            if self.embedding.changes:
                self._embed_landmarks()
            x = self.embedding(rollout.states)
            self._update_step_sq_dist(rollout, x)
            merges = self._insert(rollout, x)
            label, _ = nearest_landmark(x, self.embedded, self.used)
            visited = label[rollout.next_state_index[rollout.valid]]
            self.visit_count += torch.bincount(visited, minlength=self.config.k)
        return metrics | {"landmarks": self.used.sum(), "landmark_merges": merges}

    def _update_norm(self, rollout: Rollout) -> None:
        norm = self.embedding.norm
        if isinstance(norm, ControllabilityNorm) and bool(self.used.any()):
            learn_controllability(norm, rollout, self.action_spec, self._assign)
        if norm is not None:
            norm.observe(rollout.states[rollout.visited])

    def _train_embedding(self, rollout: Rollout) -> Metrics:
        config, losses = self.config, []
        decay_learning_rate(self, config.learning_rate, config.total_updates)
        for _ in range(config.epochs):
            for batch in self.embedding.batches(rollout, config.batch_size, self.generator):
                loss = self.embedding.loss(rollout, batch, self.generator)
                gradient_step(self, loss)
                losses.append(loss.detach())
        return {f"{config.encoder}_loss": torch.stack(losses).mean()}

    def _embed_landmarks(self) -> None:
        self.embedded.copy_(self.embedding(self.landmarks))

    def _update_step_sq_dist(self, rollout: Rollout, x: Tensor) -> None:
        step = (x[rollout.next_state_index] - x[rollout.state_index])[rollout.valid]
        update_running_mean(self.step_sq_dist, step.double().square().sum(-1).mean(), STEP_MOMENTUM)

    def _insert(self, rollout: Rollout, x: Tensor) -> int:
        """Insert states of the rollout into the codebook; returns the number of merges."""
        config = self.config
        update = insert_landmarks(
            x, self._candidates(rollout, x), self.embedded, self.used, self.visit_count,
            max_merges=config.max_merges, insert_ratio=config.insert_ratio,
            min_sq_dist=config.min_sq_dist * float(self.step_sq_dist),
        )  # fmt: skip
        slots = (update.source >= 0).nonzero().squeeze(1)
        source = update.source[slots]
        self.landmarks[slots] = rollout.states[source].to(self.landmarks.dtype)
        self.embedded[slots] = x[source]
        self.visit_count.copy_(torch.zeros_like(self.visit_count).scatter_add_(0, update.merged_into, self.visit_count))
        self.used.copy_(update.used)
        unchanged = torch.arange(self.config.k, device=x.device).unsqueeze(0)
        self.remap.copy_(torch.cat([unchanged, update.merged_into[self.remap[:-1]]]))
        return update.merges

    def _candidates(self, rollout: Rollout, x: Tensor) -> Tensor:
        """``[S]`` bool: states that may become landmarks."""
        if self.config.insert_filter == "any":
            return rollout.visited
        index = torch.arange(len(x), device=x.device)
        steps, envs = rollout.done.nonzero(as_tuple=True)
        first_final = (rollout.num_steps + 1) * rollout.num_envs
        env, time = index % rollout.num_envs, index // rollout.num_envs
        env[first_final:], time[first_final:] = envs, steps + 1
        multi_env = self.config.insert_filter == "multi_env"
        return confirmed_states(x, rollout.visited, env, time, self.step_sq_dist / 4, multi_env=multi_env)
