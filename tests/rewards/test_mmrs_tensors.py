"""The function that a GPU replays as a graph: the score of a padded rollout from tensors equals the plain score."""

import pytest
import torch
from tests.support.rollouts import MOVES, OBSERVATIONS, make_rollout

import mmrs

SAMPLE = {"latent": "sample", "lambda_l": 0.1, "scale_global": False}


@pytest.mark.parametrize("kind", OBSERVATIONS)
@pytest.mark.parametrize("options", [{}, SAMPLE], ids=["mean", "sample"])
@torch.no_grad()
def test_the_score_of_padded_tensors_is_the_score(kind, options):
    space = OBSERVATIONS[kind]
    # More clusters than states: which are alike then does not depend on how sums are rounded.
    bonus = mmrs.make("mmrs", space, MOVES, k=64, latent_dim=8, batch_size=8, **options)
    rollout = make_rollout(space, MOVES, dummies=True)
    memory = bonus.initial_memory(rollout.num_envs, rollout.device)
    padded = rollout.pad_states(64)
    assert len(padded.states) == padded.num_states and padded.num_states % 64 == 0
    assert torch.equal(padded.visited[: rollout.num_states], rollout.visited)
    assert not padded.visited[rollout.num_states :].any()
    noise, draws = bonus._draw(padded)
    terms, new = bonus._score(rollout, memory, noise[: rollout.num_states], draws)
    parts = (padded.obs, padded.final_obs, padded.terminated, padded.truncated, padded.valid)
    fairness, local, *values = bonus._score_of_tensors(*parts, noise, draws, *memory.values())
    torch.testing.assert_close(local, terms["local"], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(fairness, terms["global"], rtol=1e-4, atol=1e-5)
    assert list(memory) == list(new) and len(values) == len(new)
