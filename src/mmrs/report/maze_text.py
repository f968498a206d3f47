"""The sentences of the maze page: what happened in this maze, where fairness loses, and why."""

from __future__ import annotations

from dataclasses import dataclass

from mmrs.report.maze_data import CellData, TraceData, WalkData, label

STEP_COST = 0.1
"""c: every step in a maze of S cells costs c/S, as in gym-maze."""

LIMITS = (
    "A weight λ_G above the step cost (0.1). J grows by at most 1/S a step, so up to that weight no step pays more "
    "than nothing, untried actions keep looking best and the agent tries them all. Beyond it a new cell pays once, "
    "the path to it keeps a positive value, and the agent walks it over and over: with λ_G = 1 fairness mostly loses.",
    "A discount γ_G below 1 inside G in a large maze. It takes λ_G (1 − γ_G) J off every step, a cost that rises as J "
    "rises, so cells seen early look better than fresh ones. That is harmless while 1 − γ_G is below 1/S; with "
    "γ_G = 0.99 it eats the gain at 10 × 10 and turns it into a loss from 20 × 20 up.",
    "A step cost of zero: any weight is then too large.",
    "Very small mazes: at 3 × 3 there is nothing to gain.",
    "Against a well-tuned rival: count penalties, RND-like decay or plain coverage are as good or up to 13 % better. "
    "What fairness has is that one setting serves every size.",
    "J is no measure of coverage. A revisit raises it whenever the cell was visited less than its share, and J starts "
    "anew with each episode while the cells seen do not.",
)


@dataclass(frozen=True)
class Verdict:
    """What the walks of one maze show."""

    loses: bool
    """Whether JFI needed more steps than plain Q-learning."""
    sentences: tuple[str, ...]
    """In reading order."""


def verdict(trace: TraceData) -> Verdict:
    """Compare JFI with plain Q-learning on this maze, and say why it lost where it did."""
    walks = {walk.method: walk for walk in trace.runs}
    plain, fair = walks.get("vanilla"), walks.get("jfi")
    if plain is None or fair is None:
        return Verdict(False, tuple(f"{label(walk.method)} {_fate(walk)}." for walk in trace.runs))
    first = f"{label('vanilla')} {_fate(plain)}; {label('jfi')} {_fate(fair)}."
    plain_steps, fair_steps = plain.steps_to_coverage, fair.steps_to_coverage
    if fair_steps is None and plain_steps is None:
        return Verdict(False, (first, "Neither can be called faster here."))
    if fair_steps is None or (plain_steps is not None and fair_steps > plain_steps):
        times = "" if fair_steps is None or not plain_steps else f" by a factor of {fair_steps / plain_steps:.2f}"
        return Verdict(True, (first, f"JFI loses{times} in this maze. {why_it_loses(trace)}"))
    if plain_steps is None or fair_steps < plain_steps:
        times = "" if plain_steps is None else f" by a factor of {plain_steps / fair_steps:.2f}"
        return Verdict(False, (first, f"JFI wins{times} in this maze.", *_settings_warning(trace)))
    return Verdict(False, (first, "A tie."))


def why_it_loses(trace: TraceData) -> str:
    """The likeliest reason for a loss with these settings."""
    warnings = _settings_warning(trace)
    if warnings:
        return " ".join(warnings)
    return (
        "Its settings are sound (λ_G at most the step cost, γ_G close enough to 1), so this is the luck of one maze: "
        "even where fairness wins clearly on average, it is the slower one in some mazes."
    )


def _settings_warning(trace: TraceData) -> tuple[str, ...]:
    states, found = trace.size * trace.size, []
    if trace.lambda_g > STEP_COST:
        found.append(
            f"The weight λ_G = {trace.lambda_g:g} exceeds the step cost of {STEP_COST:g}: new cells pay a positive "
            "reward once, and the agent keeps walking the paths that paid."
        )
    if 1 - trace.gamma_g > 1 / states:
        found.append(
            f"The discount γ_G = {trace.gamma_g:g} takes {1 - trace.gamma_g:.2g} of J off every step, more than the "
            f"1/S = {1 / states:.2g} that a new cell can add: the longer the walk, the worse fresh cells look."
        )
    return tuple(found)


def _fate(walk: WalkData) -> str:
    if walk.steps_to_coverage is None:
        return f"had not seen every cell when it was stopped after {walk.steps:,} steps"
    return f"saw every cell after {walk.steps_to_coverage:,} steps"


def benchmark_row(cell: CellData) -> dict[str, str | int]:
    """One row of the benchmark table as text."""
    verdicts = {"baseline": "the baseline", "undecided": "undecided: the interval contains 1"}
    text = verdicts.get(cell.verdict, cell.verdict)
    return {
        "kind": cell.kind,
        "size": f"{cell.size} × {cell.size}",
        "label": label(cell.method),
        "mean": f"{cell.mean:,.0f} [{cell.mean_low:,.0f}, {cell.mean_high:,.0f}]",
        "median": f"{cell.median:,.0f}",
        "censored": f"{cell.censored} of {cell.mazes}",
        "ratio": "–" if cell.ratio is None else f"{cell.ratio:.2f} [{cell.ratio_low:.2f}, {cell.ratio_high:.2f}]",
        "wins": "–" if cell.wins is None else f"{cell.wins:.0%}",
        "verdict": cell.verdict,
        "text": f"{text}: {cell.reason}" if cell.reason else text,
    }
