"""What `mmrs bounds` measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from mmrs.experiments.bounds_cells import Cell


@dataclass(frozen=True)
class AsWritten:
    """Lemma 2 with the true d inside, for the law that spreads most."""

    states: int
    """S."""
    probability: float
    """p on one state; the others share the rest."""
    spread: float
    """Standard deviation of -log d over log S; Hoeffding with range log S allows one half at most."""
    violations: dict[str, float]
    """Exact probability that the bound fails, by δ."""


@dataclass(frozen=True)
class Rate:
    """How the error of the plug-in entropy falls with the number of visits."""

    law: str
    """Law of the visits, S = 100."""
    samples: tuple[int, ...]
    """n."""
    errors: tuple[float, ...]
    """Root mean squared error in nats."""
    slope: float
    """Slope of log error against log n: -1/2 but for the uniform law."""


@dataclass(frozen=True)
class BoundsResult:
    """All that was measured."""

    config: dict[str, Any]
    """Every field of the configuration."""
    cells: tuple[Cell, ...]
    """Both lemmas and the estimators, one cell for each source, S and n."""
    constants: tuple[dict[str, float], ...]
    """`delta`, the `needed` c of Lemma 1 (uniform, S = 100, n = 1024) and the c of its `proof`."""
    as_written: tuple[AsWritten, ...]
    """Lemma 2 taken at its word."""
    rates: tuple[Rate, ...]
    """Eq. (9) put to the test."""
    seconds: float
    """Wall-clock time."""

    def to_dict(self) -> dict[str, Any]:
        """The same as plain lists, numbers and strings, ready for JSON."""
        return asdict(self)
