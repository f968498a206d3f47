"""Pure functions of tensors, each naming the equation it implements.

Action distributions are in `mmrs.functional.distributions`, the parts of PPO's loss in `mmrs.functional.losses`.
"""

from mmrs.functional.clustering import inertia, kmeans
from mmrs.functional.codebook import CodebookUpdate, confirmed_states, insert_landmarks, nearest_landmark
from mmrs.functional.entropy import (
    collision_probability,
    discounted_distribution,
    empirical_distribution,
    knn_entropy,
    plug_in_entropy,
    renyi2_entropy,
    shannon_entropy,
    visit_counts,
)
from mmrs.functional.fairness import VisitCurve, gain, jain_index, visit_curve
from mmrs.functional.losses import (
    categorical_loss,
    continuous_loss,
    distillation_error,
    forward_loss,
    gaussian_kl,
    novelty,
    vae_loss,
)
from mmrs.functional.neighbors import knn_distances, squared_distances
from mmrs.functional.returns import gae, linear_recurrence

__all__ = [
    "CodebookUpdate",
    "VisitCurve",
    "categorical_loss",
    "collision_probability",
    "confirmed_states",
    "continuous_loss",
    "discounted_distribution",
    "distillation_error",
    "empirical_distribution",
    "forward_loss",
    "gae",
    "gain",
    "gaussian_kl",
    "inertia",
    "insert_landmarks",
    "jain_index",
    "kmeans",
    "knn_distances",
    "knn_entropy",
    "linear_recurrence",
    "nearest_landmark",
    "novelty",
    "plug_in_entropy",
    "renyi2_entropy",
    "shannon_entropy",
    "squared_distances",
    "vae_loss",
    "visit_counts",
    "visit_curve",
]
