"""The learner by itself: gradients, clipping, mixing."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from tests.support.losses import learnable_batch, with_kl_penalty
from torch.distributions import Categorical, Independent, Normal

from mmrs.functional.distributions import categorical_log_prob, gaussian_log_prob, gumbel, sample_categorical
from mmrs.nets.actor_critic import ActorCritic
from mmrs.ppo.advantages import MixingConfig, mixed_advantages
from mmrs.ppo.ppo import PPO, Batch, PPOConfig, ppo_loss
from mmrs.rollout import Rollout
from mmrs.spaces import action_spec, observation_spec


def plain_rollout(steps=20, envs=3, ends=()):
    terminated, truncated = np.zeros((steps, envs), bool), np.zeros((steps, envs), bool)
    for t, e, kind in ends:
        (terminated if kind == "terminated" else truncated)[t, e] = True
    final = np.ones((len(ends), 2), np.float32) if ends else None
    obs = np.random.default_rng(0).normal(size=(steps + 1, envs, 2)).astype(np.float32)
    actions = np.zeros((steps, envs), np.int64)
    return Rollout(obs=obs, actions=actions, terminated=terminated, truncated=truncated, final_obs=final)


def ends_of(rollout):
    return rollout.terminated, rollout.truncated, rollout.valid


def test_distributions_agree_with_torch():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(50, 7, generator=generator)
    actions = torch.stack([torch.arange(50) % 3, torch.arange(50) % 4], 1)
    log_prob, entropy = categorical_log_prob(logits, actions, (3, 4))
    parts = [Categorical(logits=part) for part in logits.split([3, 4], 1)]
    torch.testing.assert_close(log_prob, sum(d.log_prob(actions[:, i]) for i, d in enumerate(parts)))
    torch.testing.assert_close(entropy, sum(d.entropy() for d in parts))
    mean, log_std = torch.randn(50, 4, generator=generator), torch.randn(4, generator=generator)
    actions = torch.randn(50, 4, generator=generator)
    log_prob, entropy = gaussian_log_prob(mean, log_std, actions)
    reference = Independent(Normal(mean, log_std.exp().expand_as(mean)), 1)
    torch.testing.assert_close(log_prob, reference.log_prob(actions))
    torch.testing.assert_close(entropy, reference.entropy())


def test_gumbel_sampling_has_the_probabilities_of_the_softmax():
    logits = torch.tensor([[0.5, -1.0, 1.5]]).expand(200_000, 3)
    noise = gumbel(torch.rand(logits.shape, generator=torch.Generator().manual_seed(0)))
    share = torch.bincount(sample_categorical(logits, noise, (3,)).flatten(), minlength=3) / len(logits)
    torch.testing.assert_close(share, logits[0].softmax(0), atol=5e-3, rtol=0)


@pytest.mark.parametrize("lam", [0.5, 0.95, 1.0])
def test_a_constant_bonus_and_no_reward_give_the_closed_form(lam):
    """Zero values, no ends: A_t = c Σ (γλ)^i over the steps left. Whatever is added after GAE cannot pass this."""
    ends, gamma = ends_of(plain_rollout()), 0.9
    zeros = torch.zeros(20, 3)
    values = torch.zeros(20, 3, 1)
    arguments = {"mixing": MixingConfig(), "gamma": gamma, "lam": lam}
    result = mixed_advantages(*ends, zeros, torch.full((20, 3), 0.5), values, values, **arguments)
    left = torch.arange(20, 0, -1, dtype=torch.float64)
    factor = gamma * lam
    expected = 0.5 * (left if factor == 1 else (1 - factor**left) / (1 - factor))
    torch.testing.assert_close(result.advantages.double(), expected.unsqueeze(1).expand(20, 3), rtol=1e-6, atol=1e-6)
    assert float(result.bonus_share) == pytest.approx(1.0)
    late = mixed_advantages(*ends, zeros, zeros, values, values, **arguments)
    assert not torch.allclose(late.advantages + 0.5, result.advantages)
    assert float(late.bonus_share) == 0.0


def test_bonus_share_is_zero_without_a_bonus_and_between_with_both():
    rollout = plain_rollout()
    values = torch.randn(20, 3, 1, generator=torch.Generator().manual_seed(1))
    noise = torch.randn(20, 3, generator=torch.Generator().manual_seed(2))
    arguments = {"mixing": MixingConfig(), "gamma": 0.99, "lam": 0.95}
    none = mixed_advantages(*ends_of(rollout), noise, torch.zeros(20, 3), values, values, **arguments)
    some = mixed_advantages(*ends_of(rollout), noise, 0.3 * noise.flip(0), values, values, **arguments)
    assert float(none.bonus_share) == 0.0
    assert 0.005 < float(some.bonus_share) < 0.5


def test_two_heads_add_advantages_and_keep_separate_returns():
    rollout = plain_rollout(ends=[(5, 0, "terminated"), (9, 1, "truncated")])
    generator = torch.Generator().manual_seed(0)
    reward, bonus = torch.randn(20, 3, generator=generator), torch.randn(20, 3, generator=generator)
    values, following = torch.randn(2, 20, 3, 2, generator=generator)
    mixing = MixingConfig("two_heads", intrinsic_gamma=0.9)
    both = mixed_advantages(*ends_of(rollout), reward, bonus, values, following, mixing=mixing, gamma=0.99, lam=0.95)
    alone = [
        mixed_advantages(
            *ends_of(rollout), r, torch.zeros(20, 3), values[..., i : i + 1], following[..., i : i + 1],
            mixing=MixingConfig(), gamma=g, lam=0.95,
        )
        for i, (r, g) in enumerate([(reward, 0.99), (bonus, 0.9)])
    ]  # fmt: skip
    torch.testing.assert_close(both.advantages, alone[0].advantages + alone[1].advantages)
    torch.testing.assert_close(both.returns[..., 0], alone[0].returns[..., 0])
    torch.testing.assert_close(both.returns[..., 1], alone[1].returns[..., 0])


def test_a_non_episodic_bonus_runs_on_into_the_next_episode():
    rollout = plain_rollout(steps=4, envs=1, ends=[(1, 0, "terminated")])
    bonus = torch.tensor([[0.0], [0.0], [0.0], [1.0]])
    values = torch.zeros(4, 1, 2)
    arguments = {"gamma": 0.99, "lam": 1.0}
    zero = torch.zeros(4, 1)
    on = MixingConfig("two_heads", intrinsic_gamma=0.5, intrinsic_episodic=False)
    off = MixingConfig("two_heads", intrinsic_gamma=0.5, intrinsic_episodic=True)
    runs_on = mixed_advantages(*ends_of(rollout), zero, bonus, values, values, mixing=on, **arguments).advantages
    stops = mixed_advantages(*ends_of(rollout), zero, bonus, values, values, mixing=off, **arguments).advantages
    assert runs_on.flatten().tolist() == [0.125, 0.25, 0.5, 1.0]
    assert stops.flatten().tolist() == [0.0, 0.0, 0.5, 1.0]


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("space", [spaces.Discrete(3), spaces.MultiDiscrete([2, 3]), spaces.Box(-1, 1, (2,))])
def test_an_update_makes_good_actions_likelier(space, bf16):
    observation = observation_spec(spaces.Box(-1, 1, (4,), np.float32))
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    network = ActorCritic(observation, action_spec(space))
    config = PPOConfig(learning_rate=2e-3, clip=0.2, entropy_weight=0.0, bf16=bf16)
    ppo = PPO(network, config, generator)
    obs = torch.randn(64, 4, generator=generator)
    with torch.no_grad():
        parameters, values = network(obs)
        noise = torch.randn(parameters.shape, generator=generator)
        actions = network.sample(parameters, noise)
        log_prob, _ = network.log_prob(parameters, actions)
    good = torch.arange(64) % 2 == 0
    batch = Batch(obs, actions, log_prob, values, values, torch.where(good, 1.0, -1.0))
    metrics = ppo.update(batch, progress=0.0)
    with torch.no_grad():
        after, _ = network.log_prob(network(obs)[0], actions)
    assert (after - log_prob)[good].mean() > 0 > (after - log_prob)[~good].mean()
    assert all(np.isfinite(list(metrics.values())))


def test_the_learning_rate_falls_linearly():
    observation = observation_spec(spaces.Box(-1, 1, (4,), np.float32))
    network = ActorCritic(observation, action_spec(spaces.Discrete(2)))
    ppo = PPO(network, PPOConfig(learning_rate=1.0), torch.Generator())
    batch = Batch(
        torch.zeros(8, 4), torch.zeros(8, 1, dtype=torch.int64), torch.zeros(8), torch.zeros(8, 1), torch.zeros(8, 1),
        torch.zeros(8),
    )  # fmt: skip
    ppo.update(batch, progress=0.75)
    assert ppo.optimizer.param_groups[0]["lr"] == pytest.approx(0.25)


def spelt_out_loss(ppo, batch):
    """The objective as the paper of PPO writes it, left to torch to differentiate."""
    config, clip = ppo.config, ppo.config.clip
    parameters, values = ppo.network(batch.obs)
    log_prob, entropy = ppo.network.log_prob(parameters, batch.actions)
    ratio = (log_prob - batch.log_prob).exp()
    bounded = ratio.clamp(1 - clip, 1 + clip)
    policy = -torch.minimum(ratio * batch.advantages, bounded * batch.advantages).mean()
    error = (values - batch.returns).square()
    if config.clip_values:
        near = batch.values + (values - batch.values).clamp(-clip, clip)
        error = torch.maximum(error, (near - batch.returns).square())
    value = 0.5 * error.mean(0).sum()
    return policy, value, entropy.mean(), policy + config.value_weight * value - config.entropy_weight * entropy.mean()


@pytest.mark.parametrize("clip_values", [True, False])
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize(
    "action", [spaces.Discrete(3), spaces.MultiDiscrete([2, 4]), spaces.Box(-1, 1, (2,))], ids=lambda a: str(a)[:8]
)
@pytest.mark.parametrize("shape", [(4,), (40, 40)], ids=str)
def test_the_gradient_is_that_of_the_objective(shape, action, heads, clip_values):
    image = len(shape) == 2
    observation = observation_spec(
        spaces.Box(0, 255, shape, np.uint8) if image else spaces.Box(-9, 9, shape, np.float32)
    )
    torch.manual_seed(0)
    network = ActorCritic(observation, action_spec(action), heads)
    config = PPOConfig(clip_values=clip_values, max_grad_norm=1e9, entropy_weight=0.3)
    ppo = PPO(network, config, torch.Generator())
    with torch.no_grad():
        ppo.weights.add_(0.1 * torch.randn(ppo.weights.shape))
        obs = torch.randint(0, 256, (64, *shape), dtype=torch.uint8) if image else torch.randn(64, *shape)
        parameters, values = network(obs)
        actions = network.sample(parameters, torch.randn_like(parameters))
        log_prob, _ = network.log_prob(parameters, actions)
        # Some ratios and some values lie within their bounds, some beyond on either side.
        batch = Batch(
            obs, actions, log_prob + 0.2 * torch.randn(64), values + 0.2 * torch.randn(64, heads),
            values + torch.randn(64, heads), torch.randn(64),
        )  # fmt: skip
    policy, value, entropy, loss = spelt_out_loss(ppo, batch)
    loss.backward()
    wanted = ppo.gradient.clone()
    measured = ppo._gradient_step(*batch)
    assert measured[4] > 0.1  # clipped
    torch.testing.assert_close(ppo.gradient, wanted, rtol=1e-4, atol=1e-6 * float(wanted.abs().max()) + 1e-7)
    torch.testing.assert_close(measured[:3], torch.stack([policy, value, entropy]).detach(), rtol=1e-5, atol=1e-6)


def test_a_loss_term_of_ones_own_is_learned_from():
    """The strong KL penalty keeps the policy where it is, and its metric is recorded."""
    observation, kl = observation_spec(spaces.Box(-9, 9, (4,), np.float32)), {}
    for loss in (ppo_loss, with_kl_penalty):
        torch.manual_seed(0)
        network = ActorCritic(observation, action_spec(spaces.Discrete(3)))
        ppo = PPO(network, PPOConfig(learning_rate=1e-2), torch.Generator().manual_seed(0), loss)
        metrics = ppo.update(learnable_batch(network, torch.device("cpu")), 0.0)
        kl[loss] = float(metrics["kl"])
    assert kl[with_kl_penalty] < 0.2 * kl[ppo_loss]
    assert float(metrics["kl_penalty"]) == pytest.approx(100.0 * float(metrics["kl"]), rel=1e-4)
