"""Pieces of episodes laid out as rollouts: nothing lost, nothing doubled, memory exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

import mmrs
from mmrs.adapters.rllib.episodes import Piece, join, lay_out
from mmrs.adapters.rllib.memory import FORGET_AFTER, EpisodeMemory
from mmrs.errors import InputError
from mmrs.rewards import IntrinsicReward

SPACE, MOVES = spaces.Discrete(7, start=2), spaces.Discrete(3, start=1)


def episode(name: str, length: int, end: str, seed: int) -> Piece:
    rng = np.random.default_rng(seed)
    obs, actions = rng.integers(2, 9, length + 1), rng.integers(1, 4, length)
    return Piece(name, 0, obs, actions, end == "terminated", end == "truncated")


def cut(piece: Piece, at: int) -> list[Piece]:
    if not 0 < at < len(piece):
        return [piece]
    head = Piece(piece.episode, piece.start, piece.obs[: at + 1], piece.actions[:at], False, False)
    rest = (piece.obs[at:], piece.actions[at:], piece.terminated, piece.truncated)
    return [head, Piece(piece.episode, piece.start + at, *rest)]


EPISODES = st.lists(
    st.tuples(st.integers(1, 12), st.sampled_from(["terminated", "truncated", "open"]), st.integers(1, 11)),
    min_size=1,
    max_size=8,
)


@given(EPISODES, st.booleans())
def test_every_step_is_laid_out_once(shapes: list[tuple[int, str, int]], exact: bool) -> None:
    pieces = [episode(str(i), length, end, i) for i, (length, end, _) in enumerate(shapes)]
    layouts, seen = lay_out(pieces, exact=exact), {}
    for layout in layouts:
        before, after = layout.rollout.pairs(lambda states: states)
        first, second = layout.split(before.numpy()), layout.split(after.numpy())
        seen |= {i: (first[i], second[i]) for i in first}
        assert int(layout.rollout.valid.sum()) == sum(len(pieces[i]) for column in layout.columns for i in column)
    assert seen.keys() == set(range(len(pieces)))
    for i, piece in enumerate(pieces):
        np.testing.assert_array_equal(seen[i][0], piece.obs[:-1])
        np.testing.assert_array_equal(seen[i][1], piece.obs[1:])


@given(EPISODES, st.randoms(use_true_random=False))
def test_join_undoes_cuts(shapes: list[tuple[int, str, int]], rng: Any) -> None:
    whole = [episode(str(i), length, end, i) for i, (length, end, _) in enumerate(shapes)]
    parts = [part for piece, (_, _, at) in zip(whole, shapes, strict=True) for part in cut(piece, at)]
    rng.shuffle(parts)
    joined, places = join(parts)
    by_name = {piece.episode: piece for piece in joined}
    assert len(joined) == len(whole)
    for piece in whole:
        np.testing.assert_array_equal(by_name[piece.episode].obs, piece.obs)
        assert by_name[piece.episode].ended == piece.ended
    for part, (number, at) in zip(parts, places, strict=True):
        np.testing.assert_array_equal(joined[number].actions[at : at + len(part)], part.actions)


@given(EPISODES)
def test_memory_over_fragments_equals_whole_episodes(shapes: list[tuple[int, str, int]]) -> None:
    """Counts of an episode that comes in two batches go on where they were."""
    reward = mmrs.make("jfi", SPACE, MOVES)
    whole = [episode(str(i), length, "terminated", i) for i, (length, _, _) in enumerate(shapes)]
    expected = {piece.episode: pay([piece], EpisodeMemory(reward))[piece.episode] for piece in whole}
    memory, paid = EpisodeMemory(reward), {}
    batches: list[list[Piece]] = [[], []]
    for piece, (_, _, at) in zip(whole, shapes, strict=True):
        for batch, part in enumerate(cut(piece, at)):
            batches[batch].append(part)
    for batch in batches:
        for name, values in (pay(batch, memory) if batch else {}).items():
            paid[name] = np.concatenate([paid[name], values]) if name in paid else values
    for name, values in expected.items():
        np.testing.assert_allclose(paid[name], values, atol=1e-12)
    assert not memory.rows


def pay(pieces: list[Piece], memory: EpisodeMemory) -> dict[str, np.ndarray]:
    paid = {}
    for layout in lay_out(pieces, exact=True):
        heads, tails = ([pieces[column[end]] for column in layout.columns] for end in (0, -1))
        held = memory.collect([p.episode if p.start else None for p in heads], torch.device("cpu"))
        values, held = memory.reward.compute(layout.rollout, held)
        memory.store(held, [None if p.ended else p.episode for p in tails])
        paid |= {pieces[i].episode: part for i, part in layout.split(values.numpy()).items()}
    memory.end_batch([p.episode for p in pieces if p.ended])
    return paid


def test_little_is_padding() -> None:
    pieces = [episode("long", 100, "terminated", 0)] + [episode(str(i), 5, "terminated", i) for i in range(40)]
    rollout = lay_out(pieces, exact=False)[0].rollout
    assert rollout.valid.float().mean() > 0.9


def test_lost_episodes_are_forgotten() -> None:
    memory = EpisodeMemory(mmrs.make("jfi", SPACE, MOVES))
    pay([episode("lost", 3, "open", 0)], memory)
    assert "lost" in memory.rows
    for _ in range(FORGET_AFTER):
        memory.end_batch([])
    assert not memory.rows
    assert not memory.waiting


def test_shared_and_own_memory_are_told_apart() -> None:
    reward = mmrs.Scaled(mmrs.make("jfi", SPACE, MOVES))
    memory = EpisodeMemory(reward)
    pay([episode("a", 4, "open", 0), episode("b", 6, "terminated", 1)], memory)
    held = memory.collect(["a", None, None], torch.device("cpu"))
    assert held["scale"]["moments"].shape == (4,)
    assert held["scale"]["moments"][0] > 9
    assert held["reward"]["counts"].sum(1).tolist() == [5, 0, 0]

    class Sideways(IntrinsicReward):
        def initial_memory(self, num_envs: int, device: torch.device) -> dict[str, torch.Tensor]:
            return {"odd": torch.zeros(3, num_envs, device=device)}

    with pytest.raises(InputError, match="environments first"):
        EpisodeMemory(Sideways(SPACE, MOVES))
