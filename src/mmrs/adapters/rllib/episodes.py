"""Packing chunks of episodes, as distributed samplers deliver them, into rollouts and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmrs.rollout import Rollout

Values = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive steps of one episode."""

    episode: str
    start: int
    """Steps of the episode before this chunk."""
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
        """Whether the episode ends with this chunk."""
        return self.terminated or self.truncated


@dataclass(frozen=True, eq=False)
class PackedChunks:
    """One rollout whose columns hold chunks, one after the other."""

    rollout: Rollout
    columns: Sequence[Sequence[int]]
    """Indices of the chunks in each column, in order."""
    lengths: Sequence[int]
    """Steps of every chunk, by its index."""

    def split(self, values: Values) -> dict[int, Values]:
        """Values ``[T, C]`` as one array ``[L]`` per chunk, by its index."""
        parts: dict[int, Values] = {}
        for column, indices in enumerate(self.columns):
            at = 0
            for i in indices:
                parts[i] = values[at : at + self.lengths[i], column]
                at += self.lengths[i]
        return parts


def pack_chunks(chunks: Sequence[Chunk], *, exact: bool) -> list[PackedChunks]:
    """Rollouts that hold every chunk once. Short chunks share a column, so that there is little padding.

    A rollout's memory enters at the top of a column and leaves at its bottom. With `exact`, a chunk that continues an
    episode therefore heads its column. A chunk whose episode will continue has a column of exactly its own length,
    because padding below it would look like the end of its episode. Without `exact`, everything is one rollout.
    """
    indices = range(len(chunks))
    if not exact:
        return [_build(chunks, _assign_columns(chunks, indices))]
    closed = [i for i in indices if chunks[i].ended]
    packs = [_build(chunks, _assign_columns(chunks, closed))] if closed else []
    by_length: dict[int, list[list[int]]] = {}
    for i in indices:
        if not chunks[i].ended:
            by_length.setdefault(len(chunks[i]), []).append([i])
    return packs + [_build(chunks, columns, unfinished=True) for columns in by_length.values()]


def merge_chunks(chunks: Sequence[Chunk]) -> tuple[list[Chunk], list[tuple[int, int]]]:
    """Merge consecutive chunks of an episode; also returns each given chunk's (index, first step) in the result."""
    order = sorted(range(len(chunks)), key=lambda i: (chunks[i].episode, chunks[i].start))
    runs: list[list[int]] = []
    for i in order:
        last = chunks[runs[-1][-1]] if runs else None
        if last is not None and last.episode == chunks[i].episode and last.start + len(last) == chunks[i].start:
            runs[-1].append(i)
        else:
            runs.append([i])
    runs.sort(key=min)  # in the order of the given chunks
    positions = [(0, 0)] * len(chunks)
    for index, run in enumerate(runs):
        at = 0
        for i in run:
            positions[i] = (index, at)
            at += len(chunks[i])
    return [_merge([chunks[i] for i in run]) for run in runs], positions


def _merge(run: Sequence[Chunk]) -> Chunk:
    if len(run) == 1:
        return run[0]
    obs = np.concatenate([*(chunk.obs[:-1] for chunk in run), run[-1].obs[-1:]])
    actions = np.concatenate([chunk.actions for chunk in run])
    return replace(run[0], obs=obs, actions=actions, terminated=run[-1].terminated, truncated=run[-1].truncated)


def _assign_columns(chunks: Sequence[Chunk], indices: Iterable[int]) -> list[list[int]]:
    """Columns no longer than the longest chunk, with chunks that continue an episode only at the top."""
    indices = list(indices)
    columns = [[i] for i in indices if chunks[i].start > 0]
    lengths = [len(chunks[column[0]]) for column in columns]
    limit = max(len(chunks[i]) for i in indices)
    for i in sorted((i for i in indices if chunks[i].start == 0), key=lambda i: -len(chunks[i])):
        fits = next((c for c, length in enumerate(lengths) if length + len(chunks[i]) <= limit), None)
        if fits is None:
            columns.append([i])
            lengths.append(len(chunks[i]))
        else:
            columns[fits].append(i)
            lengths[fits] += len(chunks[i])
    return columns


def _build(chunks: Sequence[Chunk], columns: list[list[int]], *, unfinished: bool = False) -> PackedChunks:
    steps = max(sum(len(chunks[i]) for i in column) for column in columns)
    first = chunks[columns[0][0]]
    # Padding repeats a real state and action, so that no reward gets a value outside its space.
    obs = np.broadcast_to(first.obs[0], (steps + 1, len(columns), *first.obs.shape[1:])).copy()
    actions = np.broadcast_to(first.actions[0], (steps, len(columns), *first.actions.shape[1:])).copy()
    terminated, truncated, valid = (np.zeros((steps, len(columns)), bool) for _ in range(3))
    last_states: dict[tuple[int, int], Values] = {}
    for c, column in enumerate(columns):
        at = 0
        for i in column:
            chunk, end = chunks[i], at + len(chunks[i])
            obs[at : end + 1, c], actions[at:end, c], valid[at:end, c] = chunk.obs, chunk.actions, True
            terminated[end - 1, c] = chunk.terminated
            truncated[end - 1, c] = not chunk.terminated and not unfinished
            if not unfinished:
                last_states[end - 1, c] = chunk.obs[-1]
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
    return PackedChunks(rollout, columns, [len(chunk) for chunk in chunks])
