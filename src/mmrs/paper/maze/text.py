"""The sentences of the maze page: what happened in this maze, where fairness loses, and why."""

from __future__ import annotations

from dataclasses import dataclass

from mmrs.paper.maze.options import WalkOptions, discount_outweighs_gain, pays_for_new_cells
from mmrs.paper.maze.shadow_types import CellData, TraceData, WalkData, label

LOCK_IN = (
    "the goal pays 1 and ends the episode: whoever finds it repeats the path to it, so the steps "
    "measure how long a learner stays locked in, not how well it explores"
)
"""What a terminal goal does to the comparison."""
_LOCK_IN = f"{LOCK_IN[0].upper()}{LOCK_IN[1:]}."

LIMITS = (
    "A weight λ_G above the step cost (0.1). J grows by at most 1/S a step, so up to that weight no step pays more "
    "than nothing, untried actions keep looking best and the agent tries them all. Beyond it a new cell pays once, "
    "the path to it keeps a positive value, and the agent walks it over and over: with λ_G = 1 fairness mostly loses.",
    "A discount γ_G below 1 inside G in a large maze. It takes λ_G (1 − γ_G) J off every step, a cost that rises as J "
    "rises, so cells seen early look better than fresh ones. That is harmless while 1 − γ_G is below 1/S; with "
    "γ_G = 0.99 it eats the gain at 10 × 10 and turns it into a loss from 20 × 20 up.",
    "A step cost of zero: any weight is then too large.",
    "Very small mazes: at 3 × 3 there is nothing to gain.",
    "Against a well-tuned rival. At one weight for every size (0.03; 0.1 for the penalty) count bonus, count penalty "
    "and RND-like decay were 2 to 13 % ahead of fairness at its own 0.03, on plus and perfect mazes of 5, 10 and 20 "
    "cells a side; coverage was level with it on plus 5 and ahead on the others.",
    "J is no measure of coverage. A revisit raises it whenever the cell was visited less than its share, and where "
    "visits are counted in each episode, J starts anew with it while the cells seen do not.",
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
    found = _compare(trace)
    if any(walk.options.goal_ends for walk in trace.runs) and _LOCK_IN not in " ".join(found.sentences):
        return Verdict(found.loses, (*found.sentences, _LOCK_IN))
    return found


def _compare(trace: TraceData) -> Verdict:
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
        return Verdict(True, (first, f"JFI loses{times} in this maze. {why_it_loses(fair.options, trace.size)}"))
    if plain_steps is None or fair_steps < plain_steps:
        times = "" if plain_steps is None else f" by a factor of {plain_steps / fair_steps:.2f}"
        return Verdict(False, (first, f"JFI wins{times} in this maze.", *_settings_warning(fair.options, trace.size)))
    return Verdict(False, (first, "A tie."))


def why_it_loses(options: WalkOptions, size: int) -> str:
    """The likeliest reason for a loss with these settings."""
    warnings = _settings_warning(options, size)
    if warnings:
        return " ".join(warnings)
    if options.goal_ends:
        return _LOCK_IN
    return (
        "Its settings are sound (λ_G at most the step cost, γ_G close enough to 1), so this is the luck of one maze: "
        "even where fairness wins clearly on average, it is the slower one in some mazes."
    )


def _settings_warning(options: WalkOptions, size: int) -> tuple[str, ...]:
    states, found = size * size, []
    if pays_for_new_cells(options):
        found.append(
            f"The weight λ_G = {options.weight:g} exceeds the step cost of {options.step_cost:g}: new cells pay a "
            "positive reward once, and the agent keeps walking the paths that paid."
        )
    if discount_outweighs_gain(options, states):
        found.append(
            f"The discount γ_G = {options.gamma_g:g} takes {1 - options.gamma_g:.2g} of J off every step, more than "
            f"the 1/S = {1 / states:.2g} that a new cell can add: the longer the walk, the worse fresh cells look."
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
