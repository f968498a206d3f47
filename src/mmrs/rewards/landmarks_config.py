"""Every number of landmark fairness, and which are possible."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from mmrs.errors import InputError, near_matches
from mmrs.rewards.embeddings import Scale
from mmrs.rewards.options import require_choice, require_counts, require_finite


@dataclass(frozen=True)
class LandmarkConfig:
    """Every number of landmark fairness."""

    k: int = 256
    """Landmarks; more than there are things worth telling apart."""
    encoder: Literal["random", "vae", "inverse"] = "random"
    """Where distances are taken: a frozen random network, the mean of a VAE's latent, or inverse dynamics."""
    scale: Scale = "control"
    """What each number or pixel is divided by before it is embedded: nothing, its running spread, or that, and weighed
    by how far its changes follow from landmark and action."""
    pay: Literal["fairness", "clipped", "count", "first", "visit"] = "fairness"
    """What a visit is paid: the change of the fair number of landmarks K·J, that change where positive, 1/√n of the
    landmark in the episode, 1 for its first visit in the episode, or 1 always."""
    life: Literal["share", "count", "none"] = "share"
    """Weight by visits in the whole run: 1/(1 + p/Σp²) of the landmark's share p, 1/√n, or none (for worlds drawn anew
    each episode)."""
    lambda_l: float = 0.0
    """Weight of the VAE's novelty, a term of its own; needs encoder="vae"."""
    admit: Literal["any", "again", "elsewhere"] = "any"
    """Which states may become landmarks: any, one seen again in the rollout (not by merely staying), or one seen by two
    environments."""
    merges: int = 16
    """Most merges of landmarks an update."""
    ratio: float = 1.2
    """A state is let in where its squared distance to the book exceeds that of the closest landmarks so many times."""
    apart: float = 0.05
    """Two states are the same where their squared distance is below this share of that of a typical step."""
    latent_dim: int | None = None
    """Size of the embedding; None: 16 of a VAE, 32 else."""
    decoder_variance: float = 0.01
    """Variance of the VAE's decoder."""
    learning_rate: float = 5e-4
    """Of Adam, where the encoder learns."""
    total_updates: int | None = None
    """Updates over which the rate falls linearly to 0; None: constant."""
    batch_size: int = 64
    """States or transitions a gradient step."""
    epochs: int = 1
    """Passes over the rollout an update."""


CHOICES = {
    "encoder": ("random", "vae", "inverse"),
    "scale": ("none", "spread", "control"),
    "pay": ("fairness", "clipped", "count", "first", "visit"),
    "life": ("share", "count", "none"),
    "admit": ("any", "again", "elsewhere"),
}


def resolve(options: dict[str, Any]) -> LandmarkConfig:
    """The configuration; refuses unknown names and impossible numbers."""
    known = {f.name for f in fields(LandmarkConfig)}
    for name in options.keys() - known:
        raise InputError(f"landmarks has no option {name!r}. {near_matches(name, known)}")
    config = replace(LandmarkConfig(), **options)
    for name, allowed in CHOICES.items():
        require_choice("landmarks", allowed, **{name: getattr(config, name)})
    for name in ("lambda_l", "ratio", "apart", "decoder_variance"):
        require_finite("landmarks", **{name: getattr(config, name)})
    for name in ("k", "batch_size", "epochs"):
        require_counts("landmarks", **{name: getattr(config, name)})
    require_counts("landmarks", latent_dim=1 if config.latent_dim is None else config.latent_dim)
    require_counts("landmarks", least=0, merges=config.merges)
    for name in ("ratio", "decoder_variance"):
        if getattr(config, name) <= 0:
            raise InputError(f"landmarks({name}={getattr(config, name)}): expected a positive number.")
    if config.apart < 0:
        raise InputError(f"landmarks(apart={config.apart}): expected a number from 0.")
    if config.lambda_l and config.encoder != "vae":
        raise InputError(
            f"landmarks(lambda_l={config.lambda_l}, encoder={config.encoder!r}): novelty is a VAE's reconstruction "
            "error. Use encoder='vae', or lambda_l=0."
        )
    return config
