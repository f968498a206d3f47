"""From loose pieces of episodes, as distributed samplers deliver them, to rollouts and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmrs.rollout import Rollout

Values = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Piece:
    """Consecutive steps of one episode."""

    episode: str
    start: int
    """Steps of the episode before this piece."""
    obs: Values
    """``[L+1, *obs]``: the states, the last one included."""
    actions: Values
    """``[L, *act]``"""
    terminated: bool
    truncated: bool

    def __len__(self) -> int:
        """L."""
        return len(self.actions)

    @property
    def ended(self) -> bool:
        """Whether the episode ends with this piece."""
        return self.terminated or self.truncated


@dataclass(frozen=True, eq=False)
class Layout:
    """Pieces placed in the columns of one rollout, one after the other."""

    rollout: Rollout
    columns: Sequence[Sequence[int]]
    """Numbers of the pieces in each column, in order."""
    lengths: Sequence[int]
    """Steps of every piece, by its number."""

    def split(self, values: Values) -> dict[int, Values]:
        """Values ``[T, C]`` as one array ``[L]`` a piece, by its number."""
        parts: dict[int, Values] = {}
        for column, numbers in enumerate(self.columns):
            at = 0
            for number in numbers:
                parts[number] = values[at : at + self.lengths[number], column]
                at += self.lengths[number]
        return parts


def lay_out(pieces: Sequence[Piece], *, exact: bool) -> list[Layout]:
    """Rollouts that hold every piece once, short pieces behind one another so that little is padding.

    A rollout's memory goes in at the top of a column and comes out at its bottom. With `exact`, a piece that goes on
    from before therefore heads its column, and one that will go on stands alone in a rollout of its own length:
    padding below it would look like the end of its episode. Otherwise all is one rollout.
    """
    numbers = range(len(pieces))
    if not exact:
        return [_layout(pieces, _pack(pieces, numbers))]
    closed = [i for i in numbers if pieces[i].ended]
    layouts = [_layout(pieces, _pack(pieces, closed))] if closed else []
    by_length: dict[int, list[list[int]]] = {}
    for i in numbers:
        if not pieces[i].ended:
            by_length.setdefault(len(pieces[i]), []).append([i])
    return layouts + [_layout(pieces, columns, going_on=True) for columns in by_length.values()]


def join(pieces: Sequence[Piece]) -> tuple[list[Piece], list[tuple[int, int]]]:
    """Pieces of one episode that follow one another, joined; and where each given piece went: (number, first step)."""
    order = sorted(range(len(pieces)), key=lambda i: (pieces[i].episode, pieces[i].start))
    runs: list[list[int]] = []
    for i in order:
        last = pieces[runs[-1][-1]] if runs else None
        follows = last is not None and last.episode == pieces[i].episode and last.start + len(last) == pieces[i].start
        if follows:
            runs[-1].append(i)
        else:
            runs.append([i])
    runs.sort(key=min)  # in the order the pieces came
    places = [(0, 0)] * len(pieces)
    for number, run in enumerate(runs):
        at = 0
        for i in run:
            places[i] = (number, at)
            at += len(pieces[i])
    return [_joined([pieces[i] for i in run]) for run in runs], places


def _joined(run: Sequence[Piece]) -> Piece:
    if len(run) == 1:
        return run[0]
    obs = np.concatenate([*(piece.obs[:-1] for piece in run), run[-1].obs[-1:]])
    actions = np.concatenate([piece.actions for piece in run])
    return replace(run[0], obs=obs, actions=actions, terminated=run[-1].terminated, truncated=run[-1].truncated)


def _pack(pieces: Sequence[Piece], numbers: Iterable[int]) -> list[list[int]]:
    """Columns no longer than the longest piece, each headed by at most one piece that goes on from before."""
    numbers = list(numbers)
    columns = [[i] for i in numbers if pieces[i].start > 0]
    lengths = [len(pieces[column[0]]) for column in columns]
    limit = max(len(pieces[i]) for i in numbers)
    for i in sorted((i for i in numbers if pieces[i].start == 0), key=lambda i: -len(pieces[i])):
        fits = next((c for c, length in enumerate(lengths) if length + len(pieces[i]) <= limit), None)
        if fits is None:
            columns.append([i])
            lengths.append(len(pieces[i]))
        else:
            columns[fits].append(i)
            lengths[fits] += len(pieces[i])
    return columns


def _layout(pieces: Sequence[Piece], columns: list[list[int]], *, going_on: bool = False) -> Layout:
    steps = max(sum(len(pieces[i]) for i in column) for column in columns)
    first = pieces[columns[0][0]]
    # Padding repeats a real state and action, so that no reward is shown a value outside its space.
    obs = np.broadcast_to(first.obs[0], (steps + 1, len(columns), *first.obs.shape[1:])).copy()
    actions = np.broadcast_to(first.actions[0], (steps, len(columns), *first.actions.shape[1:])).copy()
    terminated, truncated, valid = (np.zeros((steps, len(columns)), bool) for _ in range(3))
    last_states: dict[tuple[int, int], Values] = {}
    for c, column in enumerate(columns):
        at = 0
        for i in column:
            piece, end = pieces[i], at + len(pieces[i])
            obs[at : end + 1, c], actions[at:end, c], valid[at:end, c] = piece.obs, piece.actions, True
            terminated[end - 1, c] = piece.terminated
            truncated[end - 1, c] = not piece.terminated and not going_on
            if not going_on:
                last_states[end - 1, c] = piece.obs[-1]
            at = end
    final = [last_states[key] for key in sorted(last_states)]
    rollout = Rollout(
        obs=obs,
        actions=actions,
        terminated=terminated,
        truncated=truncated,
        final_obs=np.stack(final) if final else None,
        valid=valid,
    )
    return Layout(rollout, columns, [len(piece) for piece in pieces])
