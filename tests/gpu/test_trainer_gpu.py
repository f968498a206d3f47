"""The fast path on a GPU: captured graphs and asynchronous transfers give the same results as plain calls."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from gymnasium import spaces
from tests.support.losses import learnable_batch, with_kl_penalty
from torch.utils._pytree import tree_map_only

from mmrs.functional import clustering
from mmrs.functional.clustering_triton import triton_works
from mmrs.nets.actor_critic import ActorCritic
from mmrs.nets.cuda_graphs import CudaGraphed, to_device
from mmrs.ppo.advantages import MixingConfig, mixed_advantages
from mmrs.ppo.ppo import PPO, Batch, PPOConfig, ppo_loss
from mmrs.rewards import make
from mmrs.rollout import Rollout
from mmrs.runs.build import build_trainer
from mmrs.runs.presets import default_config
from mmrs.spaces import action_spec, observation_spec

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
GPU = torch.device("cuda")


def atari_trainer(bonus="mmrs", groups=4, vectorization="sync"):
    config = default_config("ALE/Alien-v5", bonus)
    env = replace(config.env, groups=groups, vectorization=vectorization)
    return build_trainer(replace(config, env=env, device="cuda", num_steps=32, steps=10 * 32 * 8))


def a_rollout(seed, steps=16, envs=4, ends=2):
    rng = np.random.default_rng(seed)
    terminated = np.zeros((steps, envs), bool)
    terminated.flat[rng.choice(steps * envs, ends, replace=False)] = True
    return Rollout(
        obs=rng.integers(0, 256, (steps + 1, envs, 4, 84, 84), dtype=np.uint8),
        actions=rng.integers(0, 6, (steps, envs)),
        terminated=terminated,
        truncated=np.zeros((steps, envs), bool),
        final_obs=rng.integers(0, 256, (ends, 4, 84, 84), dtype=np.uint8),
    ).to(GPU)


def test_transfers_queued_behind_other_work_lose_nothing():
    busy = torch.randn(4096, 4096, device=GPU)
    for _ in range(20):
        busy = busy @ busy
        busy /= busy.norm()
    sent = [to_device(torch.full((1000,), i), GPU) for i in range(50)]
    assert [int(x[0]) for x in sent] == list(range(50)) == [int(x[-1]) for x in sent]


@pytest.mark.parametrize(("groups", "where"), [(1, "sync"), (2, "sync"), (4, "sync"), (2, "async"), (8, "async")])
def test_the_stored_rollout_equals_what_the_environments_saw(groups, where):
    trainer = atari_trainer(groups=groups, vectorization=where)
    collector = trainer.collector
    collector.start(0)
    for _ in range(6):  # the first ones capture graphs
        noise_state = trainer.ppo.generator.get_state()
        seen = np.concatenate([group.obs for group in collector.groups])
        got = collector.collect()
        rollout = got.rollout
        np.testing.assert_array_equal(rollout.obs[0].cpu().numpy(), seen)
        seen = np.concatenate([group.obs for group in collector.groups])
        np.testing.assert_array_equal(rollout.obs[-1].cpu().numpy(), seen)
        np.testing.assert_array_equal(got.actions.squeeze(-1).cpu().numpy(), collector.step_buffer.actions.numpy())
        with torch.no_grad():
            parameters, values = trainer.ppo.network(rollout.obs[:-1].flatten(0, 1))
            _, next_values = trainer.ppo.network(rollout.states[rollout.next_state_index].flatten(0, 1))
        log_prob, _ = trainer.ppo.network.log_prob(parameters, got.actions.flatten(0, 1))
        torch.testing.assert_close(log_prob.view_as(got.log_prob), got.log_prob, rtol=2e-3, atol=2e-3)
        torch.testing.assert_close(values.view_as(got.values), got.values, rtol=2e-3, atol=2e-3)
        torch.testing.assert_close(next_values.view_as(got.values), got.next_values, rtol=2e-3, atol=2e-3)
        # The actions are those of the noise that was drawn, but where two were as good as equal.
        generator = torch.Generator()
        generator.set_state(noise_state)
        uniform = torch.rand(32, 8, parameters.shape[-1], generator=generator).to(GPU)
        scores = parameters.view_as(uniform) - torch.log(-torch.log(uniform.clamp(1e-20, 1 - 1e-7)))
        best = scores.max(-1, keepdim=True).values
        assert bool((scores.gather(-1, got.actions) >= best - 1e-2).all())
    collector.close()


@pytest.mark.parametrize("options", [{}, {"lambda_l": 0.1}, {"latent": "sample"}, {"scale_global": False}])
def test_a_captured_bonus_equals_the_plain_one(options):
    space = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    bonus = make("mmrs", space, spaces.Discrete(6), seed=0, k=8, **options).to(GPU)
    memory = None
    for i in range(6):  # three plain calls, then the graph
        rollout = a_rollout(i, ends=i)
        before = memory
        kept = {name: value.clone() for name, value in (before or {}).items()}
        terms, memory = bonus.compute_terms(rollout, before)
        padded = rollout.pad_states(64)
        start = before or bonus.initial_memory(4, GPU)
        with torch.no_grad():
            expected, after = bonus._score(padded, start, *bonus._draw(padded))
        torch.testing.assert_close(terms["local"], expected["local"], rtol=1e-3, atol=1e-4)
        # Latents that are near equal may fall into other clusters.
        assert float((terms["global"] - expected["global"]).abs().mean()) < 0.1 * float(expected["global"].abs().mean())
        assert memory.keys() == after.keys()
        for name, value in after.items():
            torch.testing.assert_close(memory[name], value, rtol=0.1, atol=0.1)
        for name, value in kept.items():
            torch.testing.assert_close(before[name], value, rtol=0, atol=0)  # what was handed out before stays
        bonus.update(rollout)


def test_the_kmeans_init_kernel_equals_plain_calls(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    # Whole weights: distances and their sums are exact, so that nothing depends on the order of adding.
    x = torch.randint(0, 40, (3, 500, 2), generator=generator).float().to(GPU)
    mask = (torch.arange(500) < torch.tensor([[500], [321], [1]])).to(GPU)
    noise = torch.rand(64, 3, 8, generator=generator).to(GPU)
    masked = x * mask.unsqueeze(-1)
    by_kernel = clustering._kmeans_plus_plus(masked, mask.float(), noise)
    assert triton_works()
    monkeypatch.setattr(clustering, "choose_centers_triton", lambda *_: None)
    by_torch = clustering._kmeans_plus_plus(masked, mask.float(), noise)
    torch.testing.assert_close(by_kernel, by_torch, rtol=0, atol=0)
    assert len(by_kernel[0].unique(dim=0)) == 64


@pytest.mark.parametrize("mode", ["sum", "two_heads"])
def test_captured_advantages_equal_plain_ones(mode):
    mixing = MixingConfig(mode, intrinsic_episodic=mode == "sum")
    graph = CudaGraphed(partial(mixed_advantages, mixing=mixing, gamma=0.99, lam=0.95))
    heads = 2 if mode == "two_heads" else 1
    for seed in range(6):
        generator = torch.Generator(GPU).manual_seed(seed)
        terminated, truncated = torch.rand(2, 20, 3, generator=generator, device=GPU) < 0.1
        reward, bonus = torch.randn(2, 20, 3, generator=generator, device=GPU)
        values = torch.randn(2, 20, 3, heads, generator=generator, device=GPU)
        inputs = (terminated, truncated, torch.ones_like(terminated), reward, bonus, *values)
        for one, other in zip(graph(*inputs), graph.function(*inputs), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bonus", ["landmarks", "re3", "ride", "rnd", "mmrs"])
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "ALE/Alien-v5"])
def test_every_bonus_trains_on_a_gpu(bonus, env_id):
    config = default_config(env_id, bonus)
    trainer = build_trainer(replace(config, device="cuda", num_steps=32, steps=5 * 32 * config.env.num_envs))
    rows = list(trainer)
    trainer.collector.close()
    assert len(rows) == 5
    assert all(np.isfinite(value) for row in rows for value in row.values())


def test_graphs_learn_what_plain_calls_learn(monkeypatch):
    rows = {}
    for kind, calls in {"graphs": 3, "plain": 10**9}.items():
        monkeypatch.setattr("mmrs.nets.cuda_graphs.WARMUP_CALLS", calls)
        trainer = atari_trainer()
        rows[kind] = [row for row, _ in zip(trainer, range(6), strict=False)]
        trainer.collector.close()
    # The games diverge after some updates, as products differ in their last bits; until then all metrics agree.
    for name in ("policy_loss", "value_loss", "entropy", "reward/global_std", "explained_variance", "bonus/vae_error"):
        for one, other in zip(rows["graphs"][:2], rows["plain"][:2], strict=True):
            if name in one:
                assert one[name] == pytest.approx(other[name], rel=0.05, abs=2e-3), name
    assert all(np.isfinite(value) for row in rows["graphs"] for value in row.values())


def test_minibatches_at_any_address_are_captured():
    """65 in four parts: the smaller ones never start at the address of the copy that a graph reads."""
    observation = observation_spec(spaces.Box(-9, 9, (4,), np.float32))
    network = ActorCritic(observation, action_spec(spaces.Discrete(3))).to(GPU)
    ppo = PPO(network, PPOConfig(), torch.Generator().manual_seed(0))
    columns = {"log_prob": (65,), "values": (65, 1), "returns": (65, 1), "advantages": (65,)}
    for _ in range(3):
        rest = {name: torch.randn(shape, device=GPU) for name, shape in columns.items()}
        actions = torch.randint(3, (65, 1), device=GPU)
        metrics = ppo.update(Batch(obs=torch.randn(65, 4, device=GPU), actions=actions, **rest), 0.0)
    assert all(bool(value.isfinite()) for value in metrics.values())


@pytest.mark.parametrize("bonus", ["none", "rnd"])
def test_a_run_goes_from_a_gpu_to_a_cpu_and_back(bonus):
    config = replace(default_config("CartPole-v1", bonus), num_steps=32, steps=12 * 32 * 8)
    state = None
    for device in ("cuda", "cpu", "cuda", "cuda"):
        trainer = build_trainer(replace(config, device=device))
        if state is not None:
            trainer.restore(tree_map_only(torch.Tensor, lambda tensor: tensor.cpu(), state))
        rows = [row for _, row in zip(range(2 if device == "cpu" else 3), trainer, strict=False)]
        assert all(np.isfinite(row["policy_loss"]) for row in rows)
        state = trainer.state()
        trainer.collector.close()
    assert state["updates"] == 11


@pytest.mark.filterwarnings("ignore")  # torch.compile warns about parts of itself
@pytest.mark.parametrize("compiled", [False, True])
def test_a_loss_term_of_ones_own_is_captured(compiled):
    """A graph replays the user's loss: the strong KL penalty keeps the policy where it is."""
    observation = observation_spec(spaces.Box(-9, 9, (4,), np.float32))
    kl = {}
    for loss in (ppo_loss, with_kl_penalty):
        torch.manual_seed(0)
        network = ActorCritic(observation, action_spec(spaces.Discrete(3))).to(GPU)
        ppo = PPO(network, PPOConfig(learning_rate=1e-2, compile=compiled), torch.Generator().manual_seed(0), loss)
        batch = learnable_batch(network, GPU)
        for _ in range(4):
            metrics = ppo.update(batch, 0.0)
        kl[loss] = float(metrics["kl"])
        assert float(metrics.get("kl_penalty", torch.zeros(()))) >= 0.0
    assert kl[with_kl_penalty] < 0.2 * kl[ppo_loss]
