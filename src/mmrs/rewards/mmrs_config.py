"""Options of MMRS, its presets, and the allowed values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from mmrs.errors import InputError, did_you_mean
from mmrs.fields import COUNT, FINITE, NOT_NEGATIVE, POSITIVE
from mmrs.rewards.options import configured


@dataclass(frozen=True)
class MMRSConfig:
    """Options of MMRS. The defaults are the corrected form, which reaches sparse goals; see `PRESETS`."""

    # Deviation: Sec. 6.2 says 10 clusters; with 10 the reward finds a sparse goal no more often than chance.
    k: Annotated[int, COUNT] = 128
    """Number of clusters. The paper has 10."""
    # Deviation: Algorithm 1 clusters each trajectory by itself.
    clustering: Literal["joint", "env"] = "joint"
    """One k-means for the rollout ("joint"), so that labels mean the same in all environments, or one per "env"."""
    # Unstated: the number of Lloyd iterations.
    kmeans_iterations: Annotated[int, NOT_NEGATIVE] = 10
    """Lloyd iterations of k-means."""
    # Deviation: Algorithm 1 says latent variables; a sample is mostly noise.
    latent: Literal["mean", "sample"] = "mean"
    """Cluster the mean of the latent, or a sample as the paper says."""
    count_scope: Literal["rollout", "episode"] = "rollout"
    """Count visits per rollout or per episode. The paper calls a rollout of 128 steps an episode."""
    # Deviation: the paper uses the learner's discount; below 1 the gain sums to about nothing.
    gamma_g: Annotated[float, FINITE] = 1.0
    """Discount inside the gain, Eq. (11). The paper uses the learner's."""
    # Deviation: Sec. 6.2 has 0.1 on the bare gain; this one weighs a scaled bonus.
    lambda_g: Annotated[float, FINITE] = 0.03
    """Weight of the global reward, the gain of fairness."""
    # Deviation: 0.1 in Sec. 6.2 for the local reward; it had no measurable effect, and costs a pass of the decoder.
    lambda_l: Annotated[float, FINITE] = 0.0
    """Weight of the local reward, the novelty. Off by default: it had no measurable effect and costs time."""
    # Deviation: the paper adds the gain as it is.
    scale_global: bool = True
    """Center the gain and divide it by its running standard deviation."""
    # Deviation: Eq. (16) sums the error.
    novelty: Literal["mean", "sum"] = "mean"
    """Average the squared error over the observation, or sum it as in Eq. (16)."""
    # Deviation: a decoder variance of 1 is implied; then the posterior collapses and the latent is noise.
    decoder_variance: Annotated[float, POSITIVE] = 0.01
    """Variance of the VAE's decoder, p(s|z)."""
    author_loss: bool = False
    """Weight the loss as the authors' sister code does: KL summed and error averaged over the batch."""
    batch_statistics: bool = False
    """Compute the reward with the batch statistics of batch normalization, as a module left in training mode does."""
    mask_uncontrollable: bool = False
    """Multiply each feature of an observation by how well cluster and action explain its changes, against noise."""
    latent_dim: Annotated[int | None, COUNT] = None
    """Size of the latent; None: 512 for images, else 256, as in the paper."""
    # Unstated: the learning rate is "low"; this is the sister code's.
    learning_rate: Annotated[float, POSITIVE] = 5e-4
    """Learning rate of Adam."""
    total_updates: Annotated[int | None, COUNT] = None
    """Updates over which the learning rate falls linearly to 0. None: constant; in `mmrs train`: those of the run."""
    batch_size: Annotated[int, COUNT] = 64
    """States per gradient step."""
    # Unstated: Algorithm 1 trains once per rollout.
    epochs: Annotated[int, COUNT] = 1
    """Passes over the rollout per update."""


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


def resolve(preset: str | MMRSConfig, config: MMRSConfig | None, options: dict[str, Any]) -> MMRSConfig:
    """The preset or the configuration with its options; refuses unknown names and impossible values."""
    if not isinstance(preset, MMRSConfig) and preset not in PRESETS:
        raise InputError(f"mmrs has no preset {preset!r}. {did_you_mean(str(preset), PRESETS)}")
    if config is not None and preset != "default":
        raise InputError("mmrs takes a preset or a config, not both. Make the config from the preset: PRESETS[name].")
    start = config if config is not None else PRESETS[preset] if isinstance(preset, str) else preset
    return configured("mmrs", MMRSConfig, start, options)
