"""Options of landmark fairness and their allowed values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from mmrs.errors import InputError
from mmrs.fields import COUNT, FINITE, NOT_NEGATIVE, POSITIVE
from mmrs.rewards.embeddings import Scale


@dataclass(frozen=True)
class LandmarkConfig:
    """Options of landmark fairness."""

    k: Annotated[int, COUNT] = 256
    """Number of landmarks; should exceed the number of states that are worth distinguishing."""
    encoder: Literal["random", "vae", "inverse"] = "random"
    """Embedding for distances: a frozen random network, the latent mean of a VAE, or inverse dynamics."""
    input_scale: Scale = "controllability"
    """Scaling of features: "none"; by their "std"; "controllability": also by how actions explain their changes."""
    bonus: Literal["fairness", "clipped", "count", "first", "visit"] = "fairness"
    """Bonus of a visit: the change of K·J; that if positive; 1/√n in the episode; 1 for the first in it; always 1."""
    lifelong_weight: Literal["share", "count", "none"] = "share"
    """Factor by visits in the whole run: 1/(1 + p/Σp²) for its share p; 1/√n; 1, if episodes differ in their worlds."""
    lambda_l: Annotated[float, FINITE] = 0.0
    """Weight of the VAE's novelty, a separate term; needs encoder="vae"."""
    insert_filter: Literal["any", "revisited", "multi_env"] = "any"
    """States that may become landmarks: any; visited twice, other than by staying; visited by two environments."""
    max_merges: Annotated[int, NOT_NEGATIVE] = 16
    """Most merges of landmarks per update."""
    insert_ratio: Annotated[float, POSITIVE] = 1.2
    """A state replaces one of the two closest landmarks if it is farther from all by this factor (squared)."""
    min_sq_dist: Annotated[float, NOT_NEGATIVE] = 0.05
    """Squared distance below which two states are the same, as a fraction of the mean squared distance of a step."""
    latent_dim: Annotated[int | None, COUNT] = None
    """Size of the embedding; None: 16 for a VAE, else 32."""
    decoder_variance: Annotated[float, POSITIVE] = 0.01
    """Variance of the VAE's decoder."""
    learning_rate: Annotated[float, POSITIVE] = 5e-4
    """Learning rate of Adam, if the encoder is trained."""
    total_updates: Annotated[int | None, COUNT] = None
    """Updates over which the learning rate falls linearly to 0. None: constant; in `mmrs train`: those of the run."""
    batch_size: Annotated[int, COUNT] = 64
    """States or transitions per gradient step."""
    epochs: Annotated[int, COUNT] = 1
    """Passes over the rollout per update."""

    def check(self) -> None:
        """Refuse fields that do not fit each other."""
        if self.lambda_l and self.encoder != "vae":
            raise InputError(
                f"landmarks(lambda_l={self.lambda_l}, encoder={self.encoder!r}): novelty is a VAE's reconstruction "
                "error. Use encoder='vae', or lambda_l=0."
            )
