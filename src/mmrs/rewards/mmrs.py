"""MMRS: multimodal reward shaping (Sec. 5, Algorithm 1): fairness of clustered visits plus VAE novelty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from gymnasium import spaces
from torch import Tensor

from mmrs.functional.clustering import draw_init_noise, kmeans, kmeans_from
from mmrs.functional.fairness import gain
from mmrs.functional.losses import novelty
from mmrs.nets.cuda_graphs import CudaGraphed, to_device
from mmrs.nets.encoders import chunked, seeded_init
from mmrs.nets.normalization import ControllabilityNorm, RunningScale
from mmrs.nets.vae import VAE, Statistics
from mmrs.rewards.base import IntrinsicReward, Memory, Metrics, Terms
from mmrs.rewards.mmrs_config import MMRSConfig, resolve
from mmrs.rewards.training import (
    INPUT_CLIP,
    decay_learning_rate,
    gradient_step,
    learn_controllability,
    make_adam,
    minibatches,
)
from mmrs.rewards.visits import count_visits, initial_counts
from mmrs.rollout import Rollout


class MMRS(IntrinsicReward):
    """``λ_G G + λ_L N``: terms ``global`` and ``local``. Not causal: it clusters the whole rollout."""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        config: MMRSConfig | None = None,
        preset: str | MMRSConfig = "default",
        seed: int = 0,
        **options: Any,
    ) -> None:
        """Args:
        observation_space: Box or Discrete.
        action_space: any supported space.
        config: the options; None: those of the preset.
        preset: name in `PRESETS`, or a custom configuration.
        seed: seed of weights, minibatches, latent noise and k-means initialization.
        **options: fields of `MMRSConfig` to replace.
        """
        super().__init__(observation_space, action_space, seed=seed)
        self.config = config = resolve(preset, config, options)
        image = self.observation_spec.kind == "image"
        with seeded_init(self.generator):
            self.vae = VAE(self.observation_spec, config.latent_dim or (512 if image else 256)).eval()
        if image:
            self.vae = self.vae.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.norm = ControllabilityNorm(self.observation_spec, INPUT_CLIP) if config.mask_uncontrollable else None
        self.optimizer = make_adam(self.vae.parameters(), config.learning_rate, config.total_updates)
        self.scale = RunningScale("reward", center=True, causal=False, prior=0.0)
        self._captured_epoch = CudaGraphed(self._train_epoch, allow_tf32=True)
        self._captured_score = CudaGraphed(self._score_of_tensors)

    # --- the reward -------------------------------------------------------------------------------------------------

    def score(self, rollout: Rollout, memory: Memory) -> tuple[Terms, Memory]:
        """The two weighted terms, Eq. (17); on a GPU as one CUDA graph where all shapes are known."""
        if rollout.obs.is_cuda and self.config.clustering == "joint" and not self.config.batch_statistics:
            rollout = rollout.pad_states(64)  # few shapes, one graph each
            parts = (rollout.obs, rollout.final_obs, rollout.terminated, rollout.truncated, rollout.valid)
            names = list(self.initial_memory(1, torch.device("meta")))
            out = self._captured_score(*parts, *self._draw(rollout), *(memory[name] for name in names))
            fairness, local, *new = (value.clone() for value in out)  # the next replay overwrites the graph's outputs
            return {"global": fairness, "local": local}, dict(zip(names, new, strict=True))
        return self._score(rollout, memory, *self._draw(rollout))

    def _score_of_tensors(
        self, obs: Tensor, final_obs: Tensor, terminated: Tensor, truncated: Tensor, valid: Tensor, *others: Tensor
    ) -> tuple[Tensor, ...]:
        """`_score` as a function of tensors only: `others` are noise, initialization draws and the memory."""
        ends = {"terminated": terminated, "truncated": truncated}
        no_actions = terminated  # a placeholder: actions are not read
        rollout = Rollout.unchecked(obs=obs, actions=no_actions, final_obs=final_obs, valid=valid, **ends)
        noise, draws, *values = others
        memory = dict(zip(self.initial_memory(1, torch.device("meta")), values, strict=True))
        terms, memory = self._score(rollout, memory, noise, draws)
        return (*terms.values(), *memory.values())

    def _draw(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        """All randomness of `score`: noise of the latents ``[S, z]`` (empty for "mean"), and draws for k-means."""
        generator = torch.Generator()
        generator.set_state(self.generator.get_state())  # a copy: `compute` must not change the module
        config, device = self.config, rollout.device
        shape = (rollout.num_states, self.vae.latent_dim if config.latent == "sample" else 0)
        noise = _noise(shape, generator, device) if shape[1] else torch.empty(shape, device=device)
        sets = 1 if config.clustering == "joint" else rollout.num_envs
        return noise, to_device(draw_init_noise(sets, config.k, generator), device)

    def _score(self, rollout: Rollout, memory: Memory, noise: Tensor, draws: Tensor) -> tuple[Terms, Memory]:
        states = rollout.states
        if self.config.batch_statistics:  # padding must not enter batch statistics
            states = states[_last_visited(rollout.visited)]
        latents, errors = self._encode(states, noise)
        labels = self._cluster(rollout, latents, draws)
        fairness = self._global(rollout, *labels)
        if self.config.scale_global:
            shift, scale, memory = self.scale(fairness, rollout.valid, memory)
            fairness = (fairness - shift) / scale
        local = errors[rollout.state_index] if errors is not None else torch.zeros_like(fairness)
        terms = {"global": self.config.lambda_g * fairness, "local": self.config.lambda_l * local}
        return {name: term.float() for name, term in terms.items()}, memory

    def _encode(self, states: Tensor, noise: Tensor) -> tuple[Tensor, Tensor | None]:
        """Latents ``[S, z]`` to cluster, and the novelty ``[S]`` of each state if it has a weight."""
        config = self.config

        def encode(obs: Tensor, noise: Tensor) -> Tensor:
            x = self._inputs(obs)
            statistics: Statistics = "batch" if config.batch_statistics else "running"
            if config.latent == "mean":
                z = self.vae.encode_mean(x, statistics)
            else:
                mean, log_variance = self.vae.encode(x, statistics)
                z = mean + (0.5 * log_variance).exp() * noise
            if not config.lambda_l:
                return z
            error = novelty(x, self.vae.decode(z), average=config.novelty == "mean")  # Eq. (16)
            return torch.cat([z, error.unsqueeze(1)], 1)

        # Batch statistics are those of the whole rollout, not of a chunk.
        out = encode(states, noise) if config.batch_statistics else chunked(encode, states, noise)
        return (out[:, :-1], out[:, -1]) if config.lambda_l else (out, None)

    def _inputs(self, obs: Tensor) -> Tensor:
        """Input and target of the VAE for observations ``[B, *obs]``."""
        x = self.vae.normalize(self.observation_spec.features(obs))
        return x if self.norm is None else x * self.norm.weight().float()

    def _cluster(self, rollout: Rollout, latents: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
        """Cluster of s_t and of s_{t+1}, each ``[T, N]`` (Eq. 13)."""
        config = self.config
        if config.clustering == "joint":
            x, mask = latents.unsqueeze(0), rollout.visited.unsqueeze(0)
            labels = kmeans_from(x, mask, draws, config.kmeans_iterations).squeeze(0)
            return labels[rollout.state_index], labels[rollout.next_state_index]
        rows = rollout.segments("rollout")
        x, draws = latents[rows.index], draws[:, : len(rows.index)]  # one row per environment with valid steps
        labels = kmeans_from(x, rows.mask, draws, config.kmeans_iterations).flatten()
        return labels[rows.state_index], labels[rows.next_state_index]

    def _global(self, rollout: Rollout, before: Tensor, after: Tensor) -> Tensor:
        """G of each step, ``[T, N]`` (Eqs. 11 and 14); k is the denominator even with fewer distinct states."""
        config = self.config
        counts = initial_counts(rollout.num_envs, config.k, rollout.device)
        scope: Literal["lifelong", "episode"] = "lifelong" if config.count_scope == "rollout" else "episode"
        visits, _ = count_visits(rollout, before, after, counts, scope=scope)
        return gain(*visits.jain_index(config.k), config.gamma_g)

    def initial_memory(self, num_envs: int, device: torch.device) -> Memory:
        """Statistics of the global term; counts are not kept between rollouts."""
        return self.scale.initial(num_envs, device) if self.config.scale_global else {}

    # --- learning ---------------------------------------------------------------------------------------------------

    def learn(self, rollout: Rollout) -> Metrics:
        """Train the VAE on the visited states (last line of Algorithm 1)."""
        config = self.config
        decay_learning_rate(self, config.learning_rate, config.total_updates)
        if self.norm is not None:
            self.norm.observe(rollout.states[rollout.visited])
            learn_controllability(self.norm, rollout, self.action_spec, self._assign)
        epochs = []
        for _ in range(config.epochs):
            batches = minibatches(rollout.visited_index, config.batch_size, self.generator)  # [M, B]
            noise = _noise((*batches.shape, self.vae.latent_dim), self.generator, rollout.device)
            epochs.append(self._captured_epoch(rollout.states[batches], noise).clone())
        kl, error = torch.stack(epochs).mean(0)
        return {"vae_kl": kl, "vae_error": error}

    def _assign(self, obs: Tensor) -> Tensor:
        """Clusters ``[B]`` of the observations themselves: latents may contain the noise that is to be detected."""
        assert self.norm is not None, "called only with mask_uncontrollable"
        x = self.norm(self.observation_spec.features(obs)).flatten(1).unsqueeze(0)
        mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        return kmeans(x, mask, self.config.k, self.generator, self.config.kmeans_iterations).squeeze(0)

    def _train_epoch(self, obs: Tensor, noise: Tensor) -> Tensor:
        """One gradient step per batch of ``[M, B, *obs]``, as one graph on a GPU; returns means of KL and error."""
        return torch.stack([self._gradient_step(*batch) for batch in zip(obs, noise, strict=True)]).mean(0)

    def _gradient_step(self, obs: Tensor, noise: Tensor) -> Tensor:
        """One gradient step; returns mean KL and mean squared error of the batch."""
        x = self._inputs(obs)
        loss, kl, error = self.vae.loss(x, noise, self._decoder_variance(x))
        gradient_step(self, loss)
        return torch.stack([kl, error])

    def _decoder_variance(self, batch: Tensor) -> float:
        # KL.sum() + MSE.mean() over a batch is, up to a factor that Adam ignores, the loss with this variance.
        return 0.5 * batch.numel() if self.config.author_loss else self.config.decoder_variance


def _last_visited(visited: Tensor) -> Tensor:
    """``[S]``: index of each state if visited, else of the last visited one before it, or of the first."""
    index = torch.arange(len(visited), device=visited.device)
    return torch.where(visited, index, visited.to(torch.int8).argmax()).cummax(0).values


def _noise(shape: Sequence[int], generator: torch.Generator, device: torch.device) -> Tensor:
    """Normal noise. On a GPU from a generator there, seeded by ours: half a million values take 5 ms on one core."""
    if device.type == "cuda":
        seed = int(torch.randint(2**62, (), generator=generator))
        return torch.randn(tuple(shape), generator=torch.Generator(device).manual_seed(seed), device=device)
    return torch.randn(tuple(shape), generator=generator)
