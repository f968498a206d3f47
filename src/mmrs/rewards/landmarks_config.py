"""Options of landmark fairness and their allowed values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from mmrs.errors import InputError
from mmrs.rewards.embeddings import Scale
from mmrs.rewards.options import require_counts, require_finite, with_options


@dataclass(frozen=True)
class LandmarkConfig:
    """Options of landmark fairness."""

    k: int = 256
    """Number of landmarks; should exceed the number of states that are worth distinguishing."""
    encoder: Literal["random", "vae", "inverse"] = "random"
    """Embedding for distances: a frozen random network, the latent mean of a VAE, or inverse dynamics."""
    scale: Scale = "controllability"
    """Scaling of each feature before the embedding: "none"; "std": divide by its running standard deviation;
    "controllability": also multiply by how well landmark and action explain its changes."""
    bonus: Literal["fairness", "clipped", "count", "first", "visit"] = "fairness"
    """Bonus of a visit. "fairness": the change of K·J; "clipped": that change if positive; "count": 1/√n for n visits
    of the landmark in the episode; "first": 1 for its first visit in the episode; "visit": always 1."""
    lifelong_weight: Literal["share", "count", "none"] = "share"
    """Factor from the visits of the landmark in the whole run. "share": 1/(1 + p/Σp²) for its share p; "count": 1/√n;
    "none": 1, for environments that are generated anew for each episode."""
    lambda_l: float = 0.0
    """Weight of the VAE's novelty, a separate term; needs encoder="vae"."""
    insert_filter: Literal["any", "revisited", "multi_env"] = "any"
    """States that may become landmarks. "revisited": states visited at least twice in the rollout, other than by
    staying; "multi_env": states visited by at least two environments."""
    max_merges: int = 16
    """Most merges of landmarks per update."""
    insert_ratio: float = 1.2
    """A state replaces one of the two closest landmarks if its squared distance to the nearest landmark exceeds their
    squared distance by this factor."""
    min_sq_dist: float = 0.05
    """Squared distance below which two states are the same, as a fraction of the mean squared distance of a step."""
    latent_dim: int | None = None
    """Size of the embedding; None: 16 for a VAE, else 32."""
    decoder_variance: float = 0.01
    """Variance of the VAE's decoder."""
    learning_rate: float = 5e-4
    """Learning rate of Adam, if the encoder is trained."""
    total_updates: int | None = None
    """Updates over which the learning rate falls linearly to 0; None: constant."""
    batch_size: int = 64
    """States or transitions per gradient step."""
    epochs: int = 1
    """Passes over the rollout per update."""


def resolve(options: dict[str, Any]) -> LandmarkConfig:
    """The configuration; refuses unknown names and impossible values."""
    config = with_options("landmarks", LandmarkConfig(), options)
    for name in ("lambda_l", "insert_ratio", "min_sq_dist", "decoder_variance"):
        require_finite("landmarks", **{name: getattr(config, name)})
    for name in ("k", "batch_size", "epochs"):
        require_counts("landmarks", **{name: getattr(config, name)})
    require_counts("landmarks", latent_dim=1 if config.latent_dim is None else config.latent_dim)
    require_counts("landmarks", minimum=0, max_merges=config.max_merges)
    for name in ("insert_ratio", "decoder_variance"):
        if getattr(config, name) <= 0:
            raise InputError(f"landmarks({name}={getattr(config, name)}): expected a positive number.")
    if config.min_sq_dist < 0:
        raise InputError(f"landmarks(min_sq_dist={config.min_sq_dist}): expected a number of at least 0.")
    if config.lambda_l and config.encoder != "vae":
        raise InputError(
            f"landmarks(lambda_l={config.lambda_l}, encoder={config.encoder!r}): novelty is a VAE's reconstruction "
            "error. Use encoder='vae', or lambda_l=0."
        )
    return config
