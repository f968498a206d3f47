"""Collecting: in however many groups, the same rollout."""

from dataclasses import replace

import pytest
import torch

from mmrs.experiments.build import build_trainer
from mmrs.experiments.presets import default_config


def collected(env, groups, steps):
    config = default_config(env, "none")
    config = replace(config, num_steps=steps, device="cpu", env=replace(config.env, groups=groups, num_envs=8))
    trainer = build_trainer(config)
    try:
        trainer.collector.start(0)
        return [trainer.collector.collect() for _ in range(2)]
    finally:
        trainer.collector.close()


@pytest.mark.parametrize(("env", "steps"), [("CartPole-v1", 60), ("Acrobot-v1", 20)])
@pytest.mark.parametrize("groups", [2, 4, 8])
def test_groups_go_the_way_of_the_whole(env, steps, groups):
    for whole, parts in zip(collected(env, 1, steps), collected(env, groups, steps), strict=True):
        for name in ("obs", "actions", "terminated", "truncated", "final_obs"):
            assert torch.equal(getattr(whole.rollout, name), getattr(parts.rollout, name)), name
        torch.testing.assert_close(parts.log_prob, whole.log_prob)
        torch.testing.assert_close(parts.next_values, whole.next_values)
        assert torch.equal(parts.reward, whole.reward)
        assert sorted(parts.episodes.game_returns) == sorted(whole.episodes.game_returns)
    if env == "CartPole-v1":
        assert len(whole.rollout.final_obs)  # else the order of last states was not tried
