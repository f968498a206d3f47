"""Landmark fairness: the gain of Jain's index over a code book of landmark observations that is kept for life."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor

from mmrs.functional.codebook import admit, nearest, seen_twice
from mmrs.nets.encoders import drawn_from
from mmrs.nets.normalization import ControlNorm
from mmrs.rewards.base import IntrinsicReward, Memory, Metrics, Terms
from mmrs.rewards.embeddings import Embedding, InverseEmbedding, RandomEmbedding, VAEEmbedding
from mmrs.rewards.landmarks_config import resolve
from mmrs.rewards.training import adam, decay_learning_rate, gradient_step, learn_control
from mmrs.rewards.visits import CountedVisits, count_visits, initial_counts
from mmrs.rollout import Rollout
from mmrs.segments import VisitSlots

REMEMBERED_UPDATES = 32
"""Updates over which counts of a running episode follow their landmarks; older ones are dropped."""
STEP_MOMENTUM = 0.95


class LandmarkFairness(IntrinsicReward):
    """``K (J(t+1) − J(t)) / (1 + p/Σp²)``: gain of the fairness of an episode's visits to landmarks, weighed by how
    rarely the landmark was visited in the whole run.

    Landmarks are raw observations, so that an encoder that learns may embed them anew. The book changes in `update`
    alone: the bonus of a rollout uses the book as the update before left it, and so needs nothing later than its step.
    Merges must reach the counts of running episodes, which live in the memory. The module therefore keeps, for each of
    the last updates, the way from the book of then to that of now, and `compute` sends the counts it is given along it.
    """

    causal = True
    landmarks: Tensor
    embedded: Tensor
    mass: Tensor
    taken: Tensor
    ways: Tensor
    step: Tensor

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        seed: int = 0,
        **options: Any,
    ) -> None:
        """Args:
        observation_space: Box or Discrete.
        action_space: any supported space.
        seed: of weights and minibatches.
        **options: fields of `LandmarkConfig`.
        """
        super().__init__(observation_space, action_space, seed=seed)
        self.config = config = resolve(options)
        dim = config.latent_dim or (16 if config.encoder == "vae" else 32)
        with drawn_from(self.generator):
            self.embedding = self._make_embedding(dim)
        if self.embedding.trained:
            self.optimizer = adam(self.embedding.parameters(), config.learning_rate, config.total_updates)
        spec, k = self.observation_spec, config.k
        self.register_buffer("landmarks", torch.full((k, *spec.shape), spec.start, dtype=spec.dtype))
        self.register_buffer("embedded", torch.zeros(k, dim))
        self.register_buffer("mass", torch.zeros(k, dtype=torch.int64))
        self.register_buffer("taken", torch.zeros(k, dtype=torch.bool))
        self.register_buffer("ways", torch.arange(k).repeat(REMEMBERED_UPDATES, 1))
        self.register_buffer("step", torch.zeros((), dtype=torch.float64))

    @classmethod
    def settings(cls, **options: Any) -> dict[str, Any]:
        """Every field of `LandmarkConfig` with its value."""
        return asdict(resolve(options))

    def _make_embedding(self, dim: int) -> Embedding:
        config, spec = self.config, self.observation_spec
        if config.encoder == "vae":
            return VAEEmbedding(spec, dim, config.decoder_variance, scale=config.scale)
        if config.encoder == "inverse":
            return InverseEmbedding(spec, self.action_spec, dim, scale=config.scale)
        return RandomEmbedding(spec, dim, scale=config.scale)

    # --- the reward -------------------------------------------------------------------------------------------------

    def score(self, rollout: Rollout, memory: Memory) -> tuple[Terms, Memory]:
        """What each step's landmark is paid, times its weight for life."""
        label = self._places(rollout.states)
        before, after = label[rollout.before], label[rollout.after]
        counts = {"counts": self._brought_up(memory), "fresh": memory["fresh"]}
        visits, counts = count_visits(rollout, before, after, counts, scope="episode")
        terms = {"landmarks": (self._paid(visits) * self._life_weight()[after]).float()}
        if self.config.lambda_l:
            assert isinstance(self.embedding, VAEEmbedding), "checked with the options"
            terms["local"] = self.config.lambda_l * self.embedding.novelty(rollout.states)[rollout.before]
        return terms, counts | {"version": torch.full_like(memory["version"], self.updates)}

    def _places(self, obs: Tensor) -> Tensor:
        """Nearest landmarks ``[B]`` of observations ``[B, *obs]``."""
        return nearest(self.embedding(obs), self.embedded, self.taken)[0]

    def _brought_up(self, memory: Memory) -> Tensor:
        """Counts ``[N, K]`` of the memory, moved to where their landmarks are now."""
        age = (self.updates - memory["version"]).clamp_min(0)
        known = (age < REMEMBERED_UPDATES).unsqueeze(1)
        way = self.ways[age.clamp_max(REMEMBERED_UPDATES - 1)]
        counts: Tensor = memory["counts"]
        return torch.zeros_like(counts).scatter_add(1, way, counts * known)

    def _paid(self, visits: CountedVisits) -> Tensor:
        """``[T, N]``, float64."""
        pay, k = self.config.pay, self.config.k
        if pay in ("fairness", "clipped"):
            j_before, j_after = visits.index_change(k)
            change = k * (j_after - j_before)  # Eq. (11) with a discount of 1; never across a reset
            return change if pay == "fairness" else change.clamp_min(0.0)
        earlier = VisitSlots.after(visits.curve.earlier)
        if pay == "count":
            return (earlier.double() + 1.0).rsqrt()
        return (earlier == 0).double() if pay == "first" else torch.ones_like(earlier, dtype=torch.float64)

    def _life_weight(self) -> Tensor:
        """``[K]`` float64, 1 for a landmark that was never visited."""
        mass = self.mass.double()
        if self.config.life == "none":
            return torch.ones_like(mass)
        if self.config.life == "count":
            return mass.clamp_min(1.0).rsqrt()
        share = mass / mass.sum().clamp_min(1.0)
        return 1.0 / (1.0 + share / share.square().sum().clamp_min(1e-12))

    def initial_memory(self, num_envs: int, device: torch.device) -> Memory:
        """No visits, of the book as it is now."""
        version = torch.full((num_envs,), self.updates, dtype=torch.int64, device=device)
        return initial_counts(num_envs, self.config.k, device) | {"version": version}

    # --- learning ---------------------------------------------------------------------------------------------------

    def learn(self, rollout: Rollout) -> Metrics:
        """Train the encoder, embed the landmarks anew, let new ones in, and count the rollout's visits."""
        self._learn_scale(rollout)
        metrics = self._train_embedding(rollout) if self.embedding.trained else {}
        with torch.no_grad():
            if self.embedding.moves:
                self._embed_landmarks()
            x = self.embedding(rollout.states)
            self._learn_step(rollout, x)
            merges = self._admit(rollout, x)
            label, _ = nearest(x, self.embedded, self.taken)
            paid = label[rollout.after[rollout.valid]]
            self.mass += torch.bincount(paid, minlength=self.config.k)
        return metrics | {"landmarks": self.taken.sum(), "landmark_merges": merges}

    def _learn_scale(self, rollout: Rollout) -> None:
        norm = self.embedding.norm
        if isinstance(norm, ControlNorm) and bool(self.taken.any()):
            learn_control(norm, rollout, self.action_spec, self._places)
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

    def _learn_step(self, rollout: Rollout, x: Tensor) -> None:
        """Take the rollout into the running mean squared distance of a step."""
        distance = (x[rollout.after] - x[rollout.before])[rollout.valid].double().square().sum(-1).mean()
        mean = STEP_MOMENTUM * self.step + (1 - STEP_MOMENTUM) * distance
        self.step.copy_(torch.where(self.step > 0, mean, distance))

    def _admit(self, rollout: Rollout, x: Tensor) -> int:
        """Let states of the rollout into the book; returns how many landmarks were merged away."""
        config = self.config
        moves = admit(
            x, self._admissible(rollout, x), self.embedded, self.taken, self.mass,
            most_merges=config.merges, ratio=config.ratio, apart=config.apart * float(self.step),
        )  # fmt: skip
        places = (moves.source >= 0).nonzero().squeeze(1)
        source = moves.source[places]
        self.landmarks[places] = rollout.states[source].to(self.landmarks.dtype)
        self.embedded[places] = x[source]
        self.mass.copy_(torch.zeros_like(self.mass).scatter_add_(0, moves.into, self.mass))
        self.taken.copy_(moves.taken)
        here = torch.arange(self.config.k, device=x.device).unsqueeze(0)
        self.ways.copy_(torch.cat([here, moves.into[self.ways[:-1]]]))
        return moves.merges

    def _admissible(self, rollout: Rollout, x: Tensor) -> Tensor:
        """``[S]`` bool: states that may become landmarks."""
        if self.config.admit == "any":
            return rollout.visited
        place = torch.arange(len(x), device=x.device)
        steps, envs = rollout.done.nonzero(as_tuple=True)
        first_final = (rollout.num_steps + 1) * rollout.num_envs
        env, time = place % rollout.num_envs, place // rollout.num_envs
        env[first_final:], time[first_final:] = envs, steps + 1
        return seen_twice(x, rollout.visited, env, time, self.step / 4, elsewhere=self.config.admit == "elsewhere")
