"""Results of `mmrs bounds`, and their tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from rich.table import Table

from mmrs.paper.bounds.simulate import EstimateErrors


@dataclass(frozen=True)
class LiteralLemma2:
    """Lemma 2 as printed, with the true d inside, for the law with the largest std of -log d."""

    states: int
    """S."""
    probability: float
    """p on one state; the others share the rest."""
    std: float
    """Standard deviation of -log d over log S; Hoeffding with range log S allows at most one half."""
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
    """Slope of log error against log n: -1/2 except for the uniform law."""


@dataclass(frozen=True)
class BoundsResult:
    """All measurements."""

    config: dict[str, Any]
    """Every field of the configuration."""
    cells: tuple[EstimateErrors, ...]
    """Both lemmas and the estimators, one entry per source, S and n."""
    constants: tuple[dict[str, float], ...]
    """`delta`, the required c of Lemma 1 (`needed`; uniform, S = 100, n = 1024) and the c of its `proof`."""
    as_written: tuple[LiteralLemma2, ...]
    """Lemma 2 as printed."""
    rates: tuple[Rate, ...]
    """Tests of Eq. (9)."""
    seconds: float
    """Wall-clock time."""

    def to_dict(self) -> dict[str, Any]:
        """The same as plain lists, numbers and strings, ready for JSON."""
        return asdict(self)


def bounds_tables(result: BoundsResult) -> Iterator[Table | str]:
    """Tables and closing sentences, in reading order."""
    delta = float(result.config["delta"])
    independent = [cell for cell in result.cells if cell.source.startswith("iid")]
    walks = [cell for cell in result.cells if cell.source.startswith("walk")]
    yield _independent(independent, delta)
    if walks:
        yield _walks(walks, delta)
    yield _as_written(result.as_written)
    yield _estimators([cell for cell in independent if cell.source == "iid uniform"])
    yield "!: more often than δ."
    for name, cells in (("independent visits", independent), ("walks", walks)):
        if not cells:
            continue
        worst = [max(getattr(c, f"{x}_corrected_violations") for c in cells) for x in ("l1", "entropy")]
        yield f"Corrected bounds fail at most in {worst[0]:.1%} (Lemma 1) and {worst[1]:.1%} (Lemma 2) of the {name}."
    yield "Lemma 1, the c it requires at each δ (uniform, S = 100, n = 1024): " + ", ".join(
        f"{c['needed']:.2f} at {c['delta']:g}" for c in result.constants
    )
    yield "Slope of log error of the entropy against log n, S = 100 (Eq. 9 says -1): " + ", ".join(
        f"{rate.slope:.2f} {rate.law}" for rate in result.rates
    )


def verdict(violations: float, delta: float) -> str:
    """Whether a bound that may fail with probability δ did so no more often."""
    return "holds" if violations <= delta else "fails"


def _share(violations: float, delta: float) -> str:
    text = f"{violations:.2%}" if 0 < violations < 0.01 else f"{violations:.1%}"
    return text if violations <= delta else f"[bold red]{text}![/]"


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for position, column in enumerate(columns):
        table.add_column(column, justify="right" if position else "left")
    return table


def _independent(cells: Sequence[EstimateErrors], delta: float) -> Table:
    lengths = dict.fromkeys(cell.samples for cell in cells)
    title = f"Independent visits, δ = {delta:g}: Lemma 1's constant, then how often Lemma 2 fails (plug-in)"
    table = _table(title, "visits", "S", "required c", "c = 1", *(f"n = {n}" for n in lengths))
    for (source, states), group in groupby(cells, key=lambda cell: (cell.source, cell.states)):
        rows = list(group)
        required = [cell.l1_constant for cell in rows]
        table.add_row(
            source,
            str(states),
            f"{min(required):.2f}-{max(required):.2f}",
            verdict(max(cell.l1_violations for cell in rows), delta),
            *(_share(cell.entropy_violations, delta) for cell in rows),
        )
    return table


def _walks(cells: Sequence[EstimateErrors], delta: float) -> Table:
    columns = ("visits", "S", "n", "L1 error", "bound", "required c", "fails", "H bias", "bound", "fails")
    title = f"Random walks in mazes: Lemma 1 ({1 - delta:.0%} quantile, bound with c = 1), then Lemma 2"
    table = _table(title, *columns)
    for cell in cells:
        table.add_row(
            cell.source,
            str(cell.states),
            str(cell.samples),
            f"{cell.l1_quantile:.2f}",
            f"{cell.l1_bound:.2f}",
            f"{cell.l1_constant:.1f}",
            _share(cell.l1_violations, delta),
            f"{cell.entropy_bias:.3f}",
            f"{cell.entropy_bound:.3f}",
            _share(cell.entropy_violations, delta),
        )
    return table


def _as_written(rows: Sequence[LiteralLemma2]) -> Table:
    columns = ("S", "std of -log d over log S", *(f"fails at δ = {d}" for d in rows[0].violations))
    table = _table("Lemma 2 as printed (true d inside), worst two-point law, n = 10,000, exact", *columns)
    for row in rows:
        shares = [_share(share, float(d)) for d, share in row.violations.items()]
        table.add_row(str(row.states), f"{row.std:.2f}", *shares)
    return table


def _estimators(cells: Sequence[EstimateErrors]) -> Table:
    columns = ("S", "n", "mean J", "1/(1+(S-1)/n)", "J error", "H error", "Σd² error", "H bias", "-(S-1)/2n")
    title = "Uniform visits (true J = 1): relative errors of J, H and the collision estimate of Σd²"
    table = _table(title, *columns)
    for cell in cells:
        table.add_row(
            str(cell.states),
            str(cell.samples),
            f"{cell.jain_mean:.4f}",
            f"{cell.jain_formula:.4f}",
            f"{cell.jain_error:.1%}",
            f"{cell.entropy_error:.1%}",
            f"{cell.collision_error:.1%}",
            f"{cell.entropy_bias:.4f}",
            f"{cell.entropy_bias_formula:.4f}",
        )
    return table
