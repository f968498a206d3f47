"""The fast path on a GPU: captured graphs and transfers that nobody waits for give what plain calls give."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from gymnasium import spaces

from mmrs.agents.advantages import MixingConfig, mixed_advantages
from mmrs.experiments.build import build_trainer
from mmrs.experiments.presets import default_config
from mmrs.functional import clustering, clustering_gpu
from mmrs.nets.capture import Captured
from mmrs.nets.conv_inference import ConvInference
from mmrs.nets.transfer import as_words, copy_words, fetched, seen_from, to_device
from mmrs.rewards import make
from mmrs.rollout import Rollout

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
GPU = torch.device("cuda")


def atari_trainer(bonus="mmrs", groups=4):
    config = default_config("ALE/Alien-v5", bonus)
    env = replace(config.env, groups=groups)
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


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.int64])
@pytest.mark.parametrize("shape", [(2, 4, 84, 84), (3, 5), (2, 1), (8, 3)])
def test_the_memory_of_the_host_is_read_and_written_in_place(dtype, shape):
    there = torch.randint(0, 200, shape).to(dtype).pin_memory()
    seen = seen_from(GPU, there)
    own = fetched(seen)
    assert own.is_cuda and own.data_ptr() != there.data_ptr()
    torch.testing.assert_close(own.cpu(), there, rtol=0, atol=0)
    copy_words(torch.full_like(own, 7), seen)
    torch.cuda.synchronize()
    assert bool((there == 7).all())
    assert as_words(seen).data_ptr() == seen.data_ptr()


def test_transfers_behind_other_work_lose_nothing():
    busy = torch.randn(4096, 4096, device=GPU)
    for _ in range(20):
        busy = busy @ busy
        busy /= busy.norm()
    sent = [to_device(torch.full((1000,), i), GPU) for i in range(50)]
    assert [int(x[0]) for x in sent] == list(range(50)) == [int(x[-1]) for x in sent]


def test_the_network_laid_out_for_acting_is_the_network():
    trainer = atari_trainer("none")
    acting, ppo = trainer.collector.network, trainer.ppo
    assert isinstance(acting._inference, ConvInference)
    obs = torch.randint(0, 256, (2, 4, 84, 84), dtype=torch.uint8, device=GPU)
    for _ in range(2):
        with torch.no_grad():
            acting.refresh()
            torch.testing.assert_close(acting(obs), torch.cat(ppo.forward(obs), 1), rtol=2e-3, atol=2e-3)
            ppo.weights.add_(torch.randn_like(ppo.weights), alpha=0.02)
            assert not torch.allclose(acting(obs), torch.cat(ppo.forward(obs), 1), rtol=2e-3, atol=2e-3)
    trainer.collector.close()


@pytest.mark.parametrize("groups", [1, 2, 4, 8])
def test_what_is_kept_is_what_was_seen_and_done(groups):
    trainer = atari_trainer(groups=groups)
    collector = trainer.collector
    collector.start(0)
    for _ in range(6):  # graphs are captured on the way
        noise_state = trainer.ppo.generator.get_state()
        shown = np.concatenate([group.obs for group in collector.groups])
        got = collector.collect()
        rollout = got.rollout
        np.testing.assert_array_equal(rollout.obs[0].cpu().numpy(), shown)
        shown = np.concatenate([group.obs for group in collector.groups])
        np.testing.assert_array_equal(rollout.obs[-1].cpu().numpy(), shown)
        taken = np.concatenate([np.stack(group.taken) for group in collector.groups], 1)
        np.testing.assert_array_equal(got.actions.squeeze(-1).cpu().numpy(), taken)
        with torch.no_grad():
            parameters, values = trainer.ppo.forward(rollout.obs[:-1].flatten(0, 1))
            _, next_values = trainer.ppo.forward(rollout.states[rollout.after].flatten(0, 1))
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
def test_a_score_as_a_graph_is_the_score(options):
    space = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    bonus = make("mmrs", space, spaces.Discrete(6), seed=0, k=8, **options).to(GPU)
    memory = None
    for i in range(6):  # three plain calls, then the graph
        rollout = a_rollout(i, ends=i)
        before = memory
        kept = {name: value.clone() for name, value in (before or {}).items()}
        terms, memory = bonus.compute_terms(rollout, before)
        padded = rollout.with_room(64)
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


def test_the_start_of_kmeans_as_a_kernel_is_that_of_plain_calls(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    # Whole numbers: distances and their sums are exact, so that nothing depends on the order of adding.
    x = torch.randint(0, 40, (3, 500, 2), generator=generator).float().to(GPU)
    mask = (torch.arange(500) < torch.tensor([[500], [321], [1]])).to(GPU)
    draws = torch.rand(64, 3, 8, generator=generator).to(GPU)
    held = x * mask.unsqueeze(-1)
    by_kernel = clustering._plus_plus(held, mask.float(), draws)
    assert clustering_gpu._kernel() is not None
    monkeypatch.setattr(clustering, "pick_starts", lambda *_: None)
    by_calls = clustering._plus_plus(held, mask.float(), draws)
    torch.testing.assert_close(by_kernel, by_calls, rtol=0, atol=0)
    assert len(by_kernel[0].unique(dim=0)) == 64


@pytest.mark.parametrize("mode", ["sum", "two_heads"])
def test_advantages_as_a_graph_are_the_advantages(mode):
    mixing = MixingConfig(mode, intrinsic_episodic=mode == "sum")
    graph = Captured(partial(mixed_advantages, mixing=mixing, gamma=0.99, lam=0.95))
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
        monkeypatch.setattr("mmrs.nets.capture.EAGER_CALLS", calls)
        trainer = atari_trainer()
        rows[kind] = [row for row, _ in zip(trainer, range(6), strict=False)]
        trainer.collector.close()
    # The games part after some updates, as products differ in their last bits; until then all figures agree.
    for name in ("policy_loss", "value_loss", "entropy", "reward/global_std", "explained_variance", "bonus/vae_error"):
        for one, other in zip(rows["graphs"][:2], rows["plain"][:2], strict=True):
            if name in one:
                assert one[name] == pytest.approx(other[name], rel=0.05, abs=2e-3), name
    assert all(np.isfinite(value) for row in rows["graphs"] for value in row.values())
