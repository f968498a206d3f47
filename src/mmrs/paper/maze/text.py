"""The words of the maze experiment: names of methods, what happened in a maze, where fairness loses, and why."""

from __future__ import annotations

from dataclasses import dataclass

from mmrs.paper.maze.options import METHODS, WalkOptions, discount_outweighs_gain, pays_for_new_cells
from mmrs.paper.maze.results import MazeRow, MazeTrace, MethodTrace

LABELS = {
    "vanilla": "Q-learning",
    "jfi": "Q-learning + JFI",
    "entropy": "Q-learning + entropy difference",
    "coverage": "Q-learning + coverage difference",
    "count_bonus": "Q-learning + count bonus",
    "count_penalty": "Q-learning + count penalty",
    "exp_decay": "Q-learning + exponential decay",
    "random_walk": "random walk",
}
"""Names of the methods in pages and figures."""
PORTAL_LETTERS = "ABCDEFHIJKLMNOPQRTUVWXYZ"
"""Without G and S, which mark goal and start."""
GOAL_LOCK_IN = (
    "the goal pays 1 and ends the episode: a learner that finds it repeats the path to it, so the steps "
    "measure how long the learner stays locked in, not how well it explores"
)
"""The effect of a terminal goal on the comparison."""
_GOAL_LOCK_IN = f"{GOAL_LOCK_IN[0].upper()}{GOAL_LOCK_IN[1:]}."
CAVEATS = (
    "A weight λ_G above the step cost (0.1). J grows by at most 1/S per step. Up to that weight no step has a positive "
    "reward, so untried actions keep looking best and the agent tries them all. Above it a new cell has a positive "
    "reward once, the path to it keeps a positive value, and the agent repeats it: with λ_G = 1 fairness mostly loses.",
    "A discount γ_G below 1 inside G in a large maze. It takes λ_G (1 − γ_G) J off every step, a cost that rises as J "
    "rises, so cells seen early look better than new ones. That is harmless while 1 − γ_G is below 1/S; with "
    "γ_G = 0.99 it outweighs the gain at 10 × 10 and turns it into a loss from 20 × 20 up.",
    "A step cost of zero: any weight is then too large.",
    "Very small mazes: at 3 × 3 there is nothing to gain.",
    "Against a well-tuned alternative. At one weight for every size (0.03; 0.1 for the penalty) count bonus, count "
    "penalty and exponential decay were 2 to 13 % ahead of fairness at its own 0.03, on plus and perfect mazes of 5, "
    "10 and 20 cells per side; coverage was level with it on plus 5 and ahead on the others.",
    "J is no measure of coverage. A revisit raises it whenever the cell was visited less than its share, and where "
    "visits are counted in each episode, J starts again with it while the cells seen do not.",
)


def label(method: str) -> str:
    """The name of a method in pages and figures."""
    return LABELS.get(method, method.replace("_", " "))


def portal_letter(index: int) -> str:
    """The mark at both ends of a portal: A, B, ..., Z, then A2, B2, ..."""
    lap, position = divmod(index, len(PORTAL_LETTERS))
    return PORTAL_LETTERS[position] + (str(lap + 1) if lap else "")


@dataclass(frozen=True)
class Verdict:
    """What the walks of one maze show."""

    loses: bool
    """Whether JFI needed more steps than plain Q-learning."""
    sentences: tuple[str, ...]
    """In reading order."""


def verdict(trace: MazeTrace) -> Verdict:
    """Compare JFI with plain Q-learning on this maze, and give the reason where it lost."""
    found = _compare(trace)
    if any(walk.options.goal_ends for walk in trace.runs) and _GOAL_LOCK_IN not in " ".join(found.sentences):
        return Verdict(found.loses, (*found.sentences, _GOAL_LOCK_IN))
    return found


def why_it_loses(options: WalkOptions, size: int) -> str:
    """The likeliest reason for a loss in one maze with these settings."""
    warnings = _settings_warning(options, size)
    if warnings:
        return " ".join(warnings)
    if options.goal_ends:
        return _GOAL_LOCK_IN
    return (
        "Its settings are sound (λ_G at most the step cost, γ_G close enough to 1), so this is the luck of one maze: "
        "even where fairness wins clearly on average, it is slower in some mazes."
    )


def why_slower(size: int, options: WalkOptions) -> str:
    """The known reason why a method is slower than vanilla on average, in one sentence."""
    if METHODS[options.method] == "random_walk":
        return "a random walk does not learn which cells it has visited"
    if pays_for_new_cells(options):
        return (
            f"weight {options.weight:g} is above the step cost {options.step_cost:g}: a new cell pays a "
            "positive reward once, Q remembers it, and the agent walks the same path again"
        )
    if discount_outweighs_gain(options, size * size):
        return (
            f"gamma_g {options.gamma_g:g} < 1 adds a cost that grows with J; here 1 - gamma_g exceeds 1/S, "
            "the most a step can raise J, so cells seen early look better than new ones"
        )
    if options.goal_ends and options.goal_reward > 0:
        return GOAL_LOCK_IN
    return "this bonus, at this weight, is too weak or too strong for mazes of this size; only tuning helps"


def benchmark_row(row: MazeRow) -> dict[str, str | int]:
    """One row of the benchmark table as text."""
    verdicts = {"baseline": "the baseline", "undecided": "undecided: the interval contains 1"}
    text = verdicts.get(row.verdict, row.verdict)
    return {
        "kind": row.kind,
        "size": f"{row.size} × {row.size}",
        "label": label(row.method),
        "mean": f"{row.mean:,.0f} [{row.mean_low:,.0f}, {row.mean_high:,.0f}]",
        "median": f"{row.median:,.0f}",
        "censored": f"{row.censored} of {row.mazes}",
        "ratio": "–" if row.ratio is None else f"{row.ratio:.2f} [{row.ratio_low:.2f}, {row.ratio_high:.2f}]",
        "wins": "–" if row.wins is None else f"{row.wins:.0%}",
        "verdict": row.verdict,
        "text": f"{text}: {row.reason}" if row.reason else text,
    }


def _compare(trace: MazeTrace) -> Verdict:
    walks = {walk.method: walk for walk in trace.runs}
    plain, fair = walks.get("vanilla"), walks.get("jfi")
    if plain is None or fair is None:
        return Verdict(False, tuple(f"{label(walk.method)} {_outcome(walk)}." for walk in trace.runs))
    first = f"{label('vanilla')} {_outcome(plain)}; {label('jfi')} {_outcome(fair)}."
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
            f"the 1/S = {1 / states:.2g} that a new cell can add: the longer the walk, the worse new cells look."
        )
    return tuple(found)


def _outcome(walk: MethodTrace) -> str:
    if walk.steps_to_coverage is None:
        return f"had not seen every cell when it was stopped after {walk.steps:,} steps"
    return f"saw every cell after {walk.steps_to_coverage:,} steps"
