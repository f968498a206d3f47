"""Running normalisation of vector observations while acting, as the cited PPO does for Bullet."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]


class ObsNormaliser:
    """Standardises observations by the mean and variance of all the agent has seen, clipped to ±10."""

    def __init__(self, shape: tuple[int, ...], clip: float = 10.0) -> None:
        self.clip = clip
        self.mean, self.variance, self.count = np.zeros(shape), np.ones(shape), 1e-4

    def see(self, obs: Values) -> Values:
        """Take in ``[N, *shape]`` observations, then normalise them."""
        # Sums of differences from the running mean: fewer calls than mean and var, and as exact far from the origin.
        n, away = len(obs), obs - self.mean
        delta, total = np.add.reduce(away) / n, self.count + n
        away -= delta
        spread = np.add.reduce(away * away) + self.variance * self.count + delta * delta * (self.count * n / total)
        self.mean, self.variance, self.count = self.mean + delta * (n / total), spread / total, total
        return self(obs)

    def __call__(self, obs: Values) -> Values:
        """Normalise without learning: for last states, which the agent never acts on, and for evaluation."""
        scaled: Values = (obs - self.mean) / np.sqrt(self.variance + 1e-8)
        np.minimum(np.maximum(scaled, -self.clip, out=scaled), self.clip, out=scaled)
        return scaled.astype(np.float32)

    def state(self) -> dict[str, Any]:
        """What `restore` needs."""
        return {"mean": self.mean, "variance": self.variance, "count": self.count}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`."""
        self.mean, self.variance = np.array(state["mean"]), np.array(state["variance"])
        self.count = float(state["count"])
