"""Every number of MMRS, its presets, and which options are possible."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from mmrs.errors import InputError, near_matches
from mmrs.rewards.options import require_choice, require_counts, require_finite, require_flags


@dataclass(frozen=True)
class MMRSConfig:
    """Every number of MMRS. The defaults are the corrected form, which reaches sparse goals; see `PRESETS`."""

    k: int = 128
    """Clusters. # Deviation: Sec. 6.2 says 10; with 10 the reward finds a sparse goal no more often than chance."""
    clusters: Literal["joint", "env"] = "joint"
    """One k-means over the rollout, so that labels mean the same in all environments, or one an environment.
    # Deviation: Algorithm 1 clusters each trajectory by itself."""
    kmeans_iterations: int = 10
    """Lloyd passes. # Unstated."""
    latent: Literal["mean", "sample"] = "mean"
    """Cluster the latent mean or a sample. # Deviation: Algorithm 1 says latent variables; a sample is mostly noise."""
    restart: Literal["rollout", "episode"] = "rollout"
    """Where counts start afresh. Sec. 6.2 calls a rollout of 128 steps an episode."""
    gamma_g: float = 1.0
    """Discount in Eq. (11). # Deviation: the paper uses the learner's; below 1 the gain sums to about nothing."""
    lambda_g: float = 0.03
    """Weight of the global reward. # Deviation: Sec. 6.2 has 0.1 on the bare gain; this one weighs a scaled bonus."""
    lambda_l: float = 0.0
    """Weight of the local reward, off by default: it changed nothing measurable, and costs a pass of the decoder.
    # Deviation: 0.1 in Sec. 6.2."""
    scale_global: bool = True
    """Centre the gain and divide it by its running standard deviation. # Deviation: the paper adds it as it is."""
    novelty: Literal["mean", "sum"] = "mean"
    """Average or sum the squared error of Eq. (16) over the observation. # Deviation: Eq. (16) sums."""
    decoder_variance: float = 0.01
    """Variance of p(s|z). # Deviation: 1 is implied; then the posterior collapses and the latent is noise."""
    author_loss: bool = False
    """Weigh the loss as the authors' sister code does: KL summed and error averaged over the batch."""
    batch_statistics: bool = False
    """Score with the batch statistics of batch normalisation, as a module left in training mode does."""
    control: bool = False
    """Weigh each number of an observation by how far its changes follow from place and action, against noise."""
    latent_dim: int | None = None
    """Size of the latent; None: 512 for images, 256 else (the tables of the appendix)."""
    learning_rate: float = 5e-4
    """Of Adam. # Unstated: "low"; this is the sister code's."""
    total_updates: int | None = None
    """Updates over which the rate falls linearly to 0 (Sec. 6.2); None: constant."""
    batch_size: int = 64
    """States a gradient step (Sec. 6.2)."""
    epochs: int = 1
    """Passes over the rollout an update. # Unstated: Algorithm 1 trains once per rollout."""


_LITERAL = MMRSConfig(
    k=10, clusters="env", latent="sample", gamma_g=0.99, lambda_g=0.1, lambda_l=0.1,
    scale_global=False, novelty="sum", decoder_variance=1.0,
)  # fmt: skip
PRESETS: dict[str, MMRSConfig] = {
    "default": MMRSConfig(),
    "paper": _LITERAL,  # Sec. 6.2: the Atari weights
    "paper-bullet": replace(_LITERAL, lambda_g=0.01, lambda_l=0.001),  # Sec. 6.3
    # What the sister code's calls and losses show; its wider network, batch normalisation in the decoder and min-max
    # inputs are not followed: the paper's own tables say otherwise.
    "author": replace(_LITERAL, latent="mean", novelty="mean", author_loss=True, batch_statistics=True),
}


_CHOICES = {
    "clusters": ("joint", "env"),
    "latent": ("mean", "sample"),
    "restart": ("rollout", "episode"),
    "novelty": ("mean", "sum"),
}
_FLAGS = ("scale_global", "author_loss", "batch_statistics", "control")
_NUMBERS = ("gamma_g", "lambda_g", "lambda_l", "decoder_variance")


def resolve(preset: str | MMRSConfig, options: dict[str, Any]) -> MMRSConfig:
    """The preset with its options; refuses unknown names and impossible numbers."""
    if not isinstance(preset, MMRSConfig) and preset not in PRESETS:
        raise InputError(f"mmrs has no preset {preset!r}. {near_matches(str(preset), PRESETS)}")
    known = {f.name for f in fields(MMRSConfig)}
    for name in options.keys() - known:
        raise InputError(f"mmrs has no option {name!r}. {near_matches(name, known)}")
    config = replace(PRESETS[preset] if isinstance(preset, str) else preset, **options)
    for name, allowed in _CHOICES.items():
        require_choice("mmrs", allowed, **{name: getattr(config, name)})
    require_flags("mmrs", **{name: getattr(config, name) for name in _FLAGS})
    require_finite("mmrs", **{name: getattr(config, name) for name in _NUMBERS})
    counts = {name: getattr(config, name) for name in ("k", "batch_size", "epochs")}
    latent_dim = 1 if config.latent_dim is None else config.latent_dim
    require_counts("mmrs", **counts, latent_dim=latent_dim)
    require_counts("mmrs", least=0, kmeans_iterations=config.kmeans_iterations)
    if config.decoder_variance <= 0:
        raise InputError(f"mmrs(decoder_variance={config.decoder_variance}): expected a positive number.")
    return config
