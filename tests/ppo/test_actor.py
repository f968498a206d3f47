"""Acting: every actor follows the same policy."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from mmrs.nets.actor_critic import ActorCritic
from mmrs.ppo.actor import CPUActor
from mmrs.spaces import action_spec, observation_spec

VECTOR = spaces.Box(-np.inf, np.inf, (5,), np.float32)
STEPS, ENVS = 4, 3


def make_network(observation, action, **options):
    torch.manual_seed(0)
    return ActorCritic(observation_spec(observation), action_spec(action), **options)


def play(actor, observation, noise):
    """The actions of a rollout over random observations."""
    actor.start_rollout(noise)
    taken = []
    for _ in range(STEPS):
        actor.start(np.stack([observation.sample() for _ in range(ENVS)]))
        taken.append(actor.result().copy())
    actor.finish(np.stack([observation.sample() for _ in range(ENVS)]))
    return np.stack(taken)


@pytest.mark.parametrize(
    "action", [spaces.Discrete(4), spaces.MultiDiscrete([3, 5]), spaces.Box(-1.0, 1.0, (2,))], ids=lambda a: str(a)[:8]
)
@pytest.mark.parametrize("observation", [VECTOR, spaces.Discrete(6), spaces.Box(0, 255, (4, 84, 84), np.uint8)])
def test_what_an_actor_stores_is_what_the_network_says(observation, action):
    network = make_network(observation, action)
    actor = CPUActor(network, STEPS, ENVS, network.observation.dtype)
    noise = network.noise((STEPS, ENVS), torch.Generator().manual_seed(1))
    seen = []
    for _ in range(2):  # before the second rollout the weights change
        taken = play(actor, observation, noise)
        seen.append(taken)
        with torch.no_grad():
            parameters, values = network(actor.obs[:-1].flatten(0, 1))
            expected = network.sample(actor.parameters.flatten(0, 1), noise.flatten(0, 1)).view_as(actor.actions)
            torch.testing.assert_close(actor.parameters, parameters.view_as(actor.parameters), rtol=1e-3, atol=1e-4)
            torch.testing.assert_close(actor.values, values.view_as(actor.values), rtol=1e-3, atol=1e-4)
            torch.testing.assert_close(actor.actions, expected)
            np.testing.assert_array_equal(taken, actor.actions.numpy())
            for weight in network.parameters():
                weight.add_(0.1 * torch.randn(weight.shape))
    assert len(np.unique(seen)) > 1


@pytest.mark.parametrize(
    ("observation", "options", "dtype", "by_numpy"),
    [
        (VECTOR, {}, torch.float32, True),
        (VECTOR, {"bf16": True}, torch.float32, False),
        (spaces.Box(-1, 1, (5,), np.float64), {}, torch.float64, False),
        (spaces.Box(-1, 1, (2, 3), np.float32), {}, torch.float32, False),
        (spaces.Discrete(6), {}, torch.int64, False),
        (spaces.Box(0, 255, (4, 84, 84), np.uint8), {}, torch.uint8, False),
    ],
    ids=["vector", "bf16", "double", "matrix", "discrete", "image"],
)
def test_only_float_vectors_in_full_precision_act_by_numpy(observation, options, dtype, by_numpy):
    network = make_network(observation, spaces.Discrete(2), **options)
    assert (CPUActor(network, STEPS, ENVS, dtype)._numpy_policy is not None) == by_numpy


def test_the_noise_of_an_actor_samples_actions_by_their_probabilities():
    network = make_network(VECTOR, spaces.Discrete(3))
    noise = network.noise((100, 500), torch.Generator().manual_seed(0))
    logits = torch.tensor([0.5, -1.0, 1.5])
    actions = network.sample(logits.expand_as(noise).flatten(0, 1), noise.flatten(0, 1))
    share = torch.bincount(actions.flatten(), minlength=3) / len(actions)
    torch.testing.assert_close(share, logits.softmax(0), atol=1e-2, rtol=0)
    noise = make_network(VECTOR, spaces.Box(-1.0, 1.0, (2,))).noise((100, 500), torch.Generator().manual_seed(0))
    assert abs(float(noise.mean())) < 0.02 and abs(float(noise.std()) - 1.0) < 0.02
