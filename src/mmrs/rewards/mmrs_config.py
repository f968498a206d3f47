"""Options of MMRS, its presets, and the allowed values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from mmrs.errors import InputError, did_you_mean
from mmrs.rewards.options import require_counts, require_finite, with_options


@dataclass(frozen=True)
class MMRSConfig:
    """Options of MMRS. The defaults are the corrected form, which reaches sparse goals; see `PRESETS`."""

    k: int = 128
    """Clusters. # Deviation: Sec. 6.2 says 10; with 10 the reward finds a sparse goal no more often than chance."""
    clustering: Literal["joint", "env"] = "joint"
    """One k-means for the rollout ("joint"), so that labels mean the same in all environments, or one per "env".
    # Deviation: Algorithm 1 clusters each trajectory by itself."""
    kmeans_iterations: int = 10
    """Lloyd iterations. # Unstated."""
    latent: Literal["mean", "sample"] = "mean"
    """Cluster the latent mean or a sample. # Deviation: Algorithm 1 says latent variables; a sample is mostly noise."""
    count_scope: Literal["rollout", "episode"] = "rollout"
    """Count visits per rollout or per episode. Sec. 6.2 calls a rollout of 128 steps an episode."""
    gamma_g: float = 1.0
    """Discount in Eq. (11). # Deviation: the paper uses the learner's; below 1 the gain sums to about nothing."""
    lambda_g: float = 0.03
    """Weight of the global reward. # Deviation: Sec. 6.2 has 0.1 on the bare gain; this one weighs a scaled bonus."""
    lambda_l: float = 0.0
    """Weight of the local reward, off by default: it had no measurable effect, and costs a pass of the decoder.
    # Deviation: 0.1 in Sec. 6.2."""
    scale_global: bool = True
    """Center the gain and divide it by its running standard deviation. # Deviation: the paper adds it as it is."""
    novelty: Literal["mean", "sum"] = "mean"
    """Average or sum the squared error of Eq. (16) over the observation. # Deviation: Eq. (16) sums."""
    decoder_variance: float = 0.01
    """Variance of p(s|z). # Deviation: 1 is implied; then the posterior collapses and the latent is noise."""
    author_loss: bool = False
    """Weight the loss as the authors' sister code does: KL summed and error averaged over the batch."""
    batch_statistics: bool = False
    """Compute the reward with the batch statistics of batch normalization, as a module left in training mode does."""
    mask_uncontrollable: bool = False
    """Multiply each feature of an observation by how well cluster and action explain its changes, against noise."""
    latent_dim: int | None = None
    """Size of the latent; None: 512 for images, else 256 (the tables of the appendix)."""
    learning_rate: float = 5e-4
    """Learning rate of Adam. # Unstated: "low"; this is the sister code's."""
    total_updates: int | None = None
    """Updates over which the learning rate falls linearly to 0 (Sec. 6.2); None: constant."""
    batch_size: int = 64
    """States per gradient step (Sec. 6.2)."""
    epochs: int = 1
    """Passes over the rollout per update. # Unstated: Algorithm 1 trains once per rollout."""


_LITERAL = MMRSConfig(
    k=10, clustering="env", latent="sample", gamma_g=0.99, lambda_g=0.1, lambda_l=0.1,
    scale_global=False, novelty="sum", decoder_variance=1.0,
)  # fmt: skip
PRESETS: dict[str, MMRSConfig] = {
    "default": MMRSConfig(),
    "paper": _LITERAL,  # Sec. 6.2: the Atari weights
    "paper-bullet": replace(_LITERAL, lambda_g=0.01, lambda_l=0.001),  # Sec. 6.3
    # What the sister code's calls and losses show; its wider network, batch normalization in the decoder and min-max
    # inputs are not followed: the paper's own tables say otherwise.
    "author": replace(_LITERAL, latent="mean", novelty="mean", author_loss=True, batch_statistics=True),
}


_FLOATS = ("gamma_g", "lambda_g", "lambda_l", "decoder_variance")


def resolve(preset: str | MMRSConfig, options: dict[str, Any]) -> MMRSConfig:
    """The preset with its options; refuses unknown names and impossible values."""
    if not isinstance(preset, MMRSConfig) and preset not in PRESETS:
        raise InputError(f"mmrs has no preset {preset!r}. {did_you_mean(str(preset), PRESETS)}")
    config = with_options("mmrs", PRESETS[preset] if isinstance(preset, str) else preset, options)
    require_finite("mmrs", **{name: getattr(config, name) for name in _FLOATS})
    counts = {name: getattr(config, name) for name in ("k", "batch_size", "epochs")}
    latent_dim = 1 if config.latent_dim is None else config.latent_dim
    require_counts("mmrs", **counts, latent_dim=latent_dim)
    require_counts("mmrs", minimum=0, kmeans_iterations=config.kmeans_iterations)
    if config.decoder_variance <= 0:
        raise InputError(f"mmrs(decoder_variance={config.decoder_variance}): expected a positive number.")
    return config
