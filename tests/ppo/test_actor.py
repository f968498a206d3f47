"""Acting: every actor follows the same policy."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from mmrs.nets.actor_critic import ActorCritic
from mmrs.ppo.actor import Actor, InferenceNetwork, NumpyActor, make_actor
from mmrs.ppo.ppo import PPO, PPOConfig
from mmrs.spaces import action_spec, observation_spec

VECTOR = spaces.Box(-np.inf, np.inf, (5,), np.float32)
STEPS, ENVS = 4, 3


def learner(observation, action, **options):
    torch.manual_seed(0)
    spec = observation_spec(observation)
    network = ActorCritic(spec, action_spec(action))
    return PPO(network, spec, PPOConfig(**options), torch.Generator().manual_seed(1))


def play(actor, observation, noise, rng):
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
def test_numpy_and_torch_act_alike(action):
    ppo = learner(VECTOR, action)
    with torch.no_grad():
        for p in ppo.network.parameters():
            p.add_(0.3 * torch.randn(p.shape, generator=ppo.generator))
    fast = make_actor(ppo, InferenceNetwork(ppo), STEPS, ENVS, torch.float32, torch.device("cpu"), cpu_shared=False)
    assert isinstance(fast, NumpyActor)
    plain = Actor(ppo, InferenceNetwork(ppo), STEPS, ENVS, torch.float32, torch.device("cpu"))
    noise = ppo.network.noise((STEPS, ENVS), ppo.generator)
    for _ in range(2):  # before the second rollout the weights change
        results = []
        for actor in (fast, plain):
            VECTOR.seed(7)
            results.append(play(actor, VECTOR, noise, None))
        np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-5)
        for name in ("obs", "parameters", "values", "actions"):
            torch.testing.assert_close(getattr(fast, name), getattr(plain, name), rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            ppo.weights.mul_(1.5)
    assert len(np.unique(results[0])) > 1


def test_only_float_vectors_in_full_precision_use_the_numpy_actor():
    pixels = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    others = [
        (learner(spaces.Discrete(6), spaces.Discrete(2)), torch.int64),
        (learner(VECTOR, spaces.Discrete(2), bf16=True), torch.float32),
        (learner(pixels, spaces.Discrete(2)), torch.uint8),
    ]
    for ppo, dtype in others:
        actor = make_actor(ppo, InferenceNetwork(ppo), STEPS, ENVS, dtype, torch.device("cpu"), cpu_shared=False)
        assert type(actor) is Actor


def test_flat_weights_are_the_network_and_collect_its_gradient():
    ppo = learner(spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(3))
    layers = [p for p in ppo.network.parameters() if p.requires_grad]
    assert ppo.weights.numel() == sum(p.numel() for p in layers)
    loss = sum((p * p).sum() for p in layers)
    loss.backward()
    pieces = torch.cat([p.detach().as_strided((p.numel(),), (1,), p.storage_offset()) for p in layers])
    torch.testing.assert_close(ppo.weights.data, pieces)
    torch.testing.assert_close(ppo.weights.grad, 2 * pieces)
    before = layers[0].detach().clone()
    ppo.optimizer.step()
    assert not torch.equal(layers[0], before)
    ppo.network.load_state_dict({k: torch.zeros_like(v) for k, v in ppo.network.state_dict().items()})
    assert not ppo.weights.any()


def test_the_noise_of_an_actor_samples_actions_by_their_probabilities():
    ppo = learner(VECTOR, spaces.Discrete(3))
    noise = ppo.network.noise((100, 500), torch.Generator().manual_seed(0))
    logits = torch.tensor([0.5, -1.0, 1.5])
    actions = ppo.network.sample(logits.expand_as(noise).flatten(0, 1), noise.flatten(0, 1))
    share = torch.bincount(actions.flatten(), minlength=3) / len(actions)
    torch.testing.assert_close(share, logits.softmax(0), atol=1e-2, rtol=0)
    noise = learner(VECTOR, spaces.Box(-1.0, 1.0, (2,))).network.noise((100, 500), torch.Generator().manual_seed(0))
    assert abs(float(noise.mean())) < 0.02 and abs(float(noise.std()) - 1.0) < 0.02
