"""Chunks of episodes packed into rollouts: nothing lost, nothing doubled, memory exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

import mmrs
from mmrs.adapters.rllib.episodes import Chunk, merge_chunks, pack_chunks
from mmrs.adapters.rllib.memory import FORGET_AFTER, EpisodeMemory
from mmrs.errors import InputError
from mmrs.rewards import IntrinsicReward

SPACE, MOVES = spaces.Discrete(7, start=2), spaces.Discrete(3, start=1)


def episode(name: str, length: int, end: str, seed: int) -> Chunk:
    rng = np.random.default_rng(seed)
    obs, actions = rng.integers(2, 9, length + 1), rng.integers(1, 4, length)
    return Chunk(name, 0, obs, actions, end == "terminated", end == "truncated")


def cut(chunk: Chunk, at: int) -> list[Chunk]:
    if not 0 < at < len(chunk):
        return [chunk]
    head = Chunk(chunk.episode, chunk.start, chunk.obs[: at + 1], chunk.actions[:at], False, False)
    rest = (chunk.obs[at:], chunk.actions[at:], chunk.terminated, chunk.truncated)
    return [head, Chunk(chunk.episode, chunk.start + at, *rest)]


EPISODES = st.lists(
    st.tuples(st.integers(1, 12), st.sampled_from(["terminated", "truncated", "open"]), st.integers(1, 11)),
    min_size=1,
    max_size=8,
)


@given(EPISODES, st.booleans())
def test_every_step_is_packed_once(shapes: list[tuple[int, str, int]], exact: bool) -> None:
    chunks = [episode(str(i), length, end, i) for i, (length, end, _) in enumerate(shapes)]
    packs, seen = pack_chunks(chunks, exact=exact), {}
    for pack in packs:
        before, after = pack.rollout.map_pairs(lambda states: states)
        first, second = pack.split(before.numpy()), pack.split(after.numpy())
        seen |= {i: (first[i], second[i]) for i in first}
        assert int(pack.rollout.valid.sum()) == sum(len(chunks[i]) for column in pack.columns for i in column)
    assert seen.keys() == set(range(len(chunks)))
    for i, chunk in enumerate(chunks):
        np.testing.assert_array_equal(seen[i][0], chunk.obs[:-1])
        np.testing.assert_array_equal(seen[i][1], chunk.obs[1:])


@given(EPISODES, st.randoms(use_true_random=False))
def test_merging_undoes_cuts(shapes: list[tuple[int, str, int]], rng: Any) -> None:
    whole = [episode(str(i), length, end, i) for i, (length, end, _) in enumerate(shapes)]
    parts = [part for chunk, (_, _, at) in zip(whole, shapes, strict=True) for part in cut(chunk, at)]
    rng.shuffle(parts)
    joined, positions = merge_chunks(parts)
    by_name = {chunk.episode: chunk for chunk in joined}
    assert len(joined) == len(whole)
    for chunk in whole:
        np.testing.assert_array_equal(by_name[chunk.episode].obs, chunk.obs)
        assert by_name[chunk.episode].ended == chunk.ended
    for part, (number, at) in zip(parts, positions, strict=True):
        np.testing.assert_array_equal(joined[number].actions[at : at + len(part)], part.actions)


@given(EPISODES)
def test_memory_over_fragments_equals_whole_episodes(shapes: list[tuple[int, str, int]]) -> None:
    """Counts of an episode that comes in two batches go on where they were."""
    reward = mmrs.make("jfi", SPACE, MOVES)
    whole = [episode(str(i), length, "terminated", i) for i, (length, _, _) in enumerate(shapes)]
    expected = {chunk.episode: pay([chunk], EpisodeMemory(reward))[chunk.episode] for chunk in whole}
    memory, paid = EpisodeMemory(reward), {}
    batches: list[list[Chunk]] = [[], []]
    for chunk, (_, _, at) in zip(whole, shapes, strict=True):
        for batch, part in enumerate(cut(chunk, at)):
            batches[batch].append(part)
    for batch in batches:
        for name, values in (pay(batch, memory) if batch else {}).items():
            paid[name] = np.concatenate([paid[name], values]) if name in paid else values
    for name, values in expected.items():
        np.testing.assert_allclose(paid[name], values, atol=1e-12)
    assert not memory.rows


def pay(chunks: list[Chunk], memory: EpisodeMemory) -> dict[str, np.ndarray]:
    paid = {}
    for pack in pack_chunks(chunks, exact=True):
        heads, tails = ([chunks[column[end]] for column in pack.columns] for end in (0, -1))
        state = memory.collect([p.episode if p.start else None for p in heads], torch.device("cpu"))
        values, state = memory.reward.compute(pack.rollout, state)
        memory.store(state, [None if p.ended else p.episode for p in tails])
        paid |= {chunks[i].episode: part for i, part in pack.split(values.numpy()).items()}
    memory.end_batch([p.episode for p in chunks if p.ended])
    return paid


def test_there_is_little_padding() -> None:
    chunks = [episode("long", 100, "terminated", 0)] + [episode(str(i), 5, "terminated", i) for i in range(40)]
    rollout = pack_chunks(chunks, exact=False)[0].rollout
    assert rollout.valid.float().mean() > 0.9


def test_lost_episodes_are_dropped() -> None:
    memory = EpisodeMemory(mmrs.make("jfi", SPACE, MOVES))
    pay([episode("lost", 3, "open", 0)], memory)
    assert "lost" in memory.rows
    for _ in range(FORGET_AFTER):
        memory.end_batch([])
    assert not memory.rows
    assert not memory.waiting


def test_shared_and_own_memory_are_distinguished() -> None:
    reward = mmrs.Scaled(mmrs.make("jfi", SPACE, MOVES))
    memory = EpisodeMemory(reward)
    pay([episode("a", 4, "open", 0), episode("b", 6, "terminated", 1)], memory)
    state = memory.collect(["a", None, None], torch.device("cpu"))
    assert state["scale"]["moments"].shape == (4,)
    assert state["scale"]["moments"][0] > 9
    assert state["reward"]["counts"].sum(1).tolist() == [5, 0, 0]

    class Sideways(IntrinsicReward):
        def initial_memory(self, num_envs: int, device: torch.device) -> dict[str, torch.Tensor]:
            return {"odd": torch.zeros(3, num_envs, device=device)}

    with pytest.raises(InputError, match="environments first"):
        EpisodeMemory(Sideways(SPACE, MOVES))
