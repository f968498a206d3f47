"""Over 1,000 rollouts of one endless episode nothing grows: not the memory, not the module, not the process."""

import importlib
import sys
from pathlib import Path

import pytest
import torch

import mmrs
from mmrs.rewards import REWARDS, IntrinsicReward

sys.path.append(str(Path(__file__).resolve().parents[2]))
watch = importlib.import_module("benchmarks.memory")

SMALL = {"landmarks": {"k": 32}, "mmrs": {"k": 8, "kmeans_iterations": 2}, "rnd": {"latent_dim": 64}}
MAX_GROWTH = 12 * 2**20
"""Bytes. The size of the process varies by about 2 MiB; an embedding kept for each of 51,200 visits is 26 MB."""
MAX_OBJECTS = 100


def assert_flat(held: list) -> None:
    first, last = held[0], held[-1]
    assert last.memory_bytes == first.memory_bytes, "the reward's memory grew"
    assert last.module_bytes == first.module_bytes, "the module grew"
    assert last.objects - first.objects < MAX_OBJECTS, "Python objects piled up"
    assert last.resident_bytes - first.resident_bytes < MAX_GROWTH, "the process grew"


@pytest.mark.parametrize("name", sorted(REWARDS))
def test_memory_is_flat_over_a_thousand_rollouts(name):
    assert_flat(watch.watch_memory(watch.make_reward(name, **SMALL.get(name, {})), 1000, readings=5))


def test_memory_of_wrappers_is_flat():
    parts = {"ride": mmrs.Scaled(watch.make_reward("ride", memory_size=32)), "re3": watch.make_reward("re3")}
    assert_flat(watch.watch_memory(mmrs.Sum(parts), 300, readings=3))


class Leaky(IntrinsicReward):
    """Keeps all observations, in the memory or in a list."""

    def __init__(self, where: str) -> None:
        super().__init__(watch.VECTORS, watch.ACTIONS)
        self.where, self.kept = where, []

    def initial_memory(self, num_envs, device):
        return {"seen": torch.zeros(0)}

    def compute_terms(self, rollout, memory=None):
        seen = (memory or self.initial_memory(4, rollout.device))["seen"]
        if self.where == "memory":
            seen = torch.cat([seen, rollout.obs.flatten()])
        else:
            self.kept.append(rollout.obs)
        return {"leak": torch.zeros_like(rollout.terminated, dtype=torch.float32)}, {"seen": seen}


@pytest.mark.parametrize(("where", "complaint"), [("memory", "memory grew"), ("list", "piled up")])
def test_a_leak_is_seen(where, complaint):
    with pytest.raises(AssertionError, match=complaint):
        assert_flat(watch.watch_memory(Leaky(where), 300, readings=3))
