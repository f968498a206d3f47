"""TorchRL: a hook that adds a bonus to a collector's batch before the advantages are computed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mmrs.adapters.host import RewardHost
from mmrs.errors import InputError, MissingExtraError
from mmrs.rewards import IntrinsicReward
from mmrs.rollout import Rollout

try:
    from tensordict import TensorDictBase
except ImportError as error:
    raise MissingExtraError("torchrl", "torchrl") from error


class BonusHook:
    """Adds ``weight * bonus`` to ``("next", "reward")`` of each batch of a collector, and trains the reward on it.

    Example:
        >>> hook = BonusHook(mmrs.make("mmrs", envs.single_observation_space, envs.single_action_space), weight=0.1)
        >>> for batch in collector:
        ...     hook(batch)
        ...     advantage(batch)  # GAE, after the bonus; otherwise the policy would not learn from it
    """

    def __init__(
        self, reward: IntrinsicReward, *, weight: float = 1.0, obs_key: str = "observation", action_key: str = "action"
    ) -> None:
        """Args:
        reward: any reward, made from Gymnasium's spaces.
        weight: factor of the bonus.
        obs_key: key of the observations that the bonus sees.
        action_key: key of the actions, which may be one-hot.
        """
        self.reward_host = RewardHost(reward, weight)
        self.obs_key, self.action_key = obs_key, action_key
        self._last_states: Tensor | None = None

    def __call__(self, batch: TensorDictBase) -> dict[str, float]:
        """Add the bonus and train the reward; returns metrics.

        The extrinsic reward stays in ``("next", "extrinsic_reward")``.
        """
        rollout = self.rollout(batch)
        self._reset_after_jump(rollout)
        bonus, metrics = self.reward_host.compute(rollout)
        extrinsic = batch["next", "reward"]
        by_env = torch.from_numpy(bonus).to(extrinsic.device).T  # [N, T], as TorchRL has it
        batch["next", "extrinsic_reward"] = extrinsic
        batch["next", "reward"] = extrinsic + by_env.reshape(extrinsic.shape).to(extrinsic.dtype)
        return metrics | self.reward_host.update(rollout)

    def rollout(self, batch: TensorDictBase) -> Rollout:
        """The batch ``[N, T]`` (or ``[T]``) as a rollout, true last states from ``("next", obs_key)``."""
        if batch.ndim not in (1, 2):
            raise InputError(f"the batch has shape {tuple(batch.shape)}, expected [T] or [N, T] as collectors give it.")
        if ("collector", "mask") in batch.keys(include_nested=True):
            raise InputError("the batch is split into padded trajectories; make the collector with split_trajs=False.")
        batch = batch if batch.ndim == 2 else batch.unsqueeze(0)
        obs, after = self._states(batch), self._states(batch["next"])
        terminated, truncated = (self._flag(batch, name) for name in ("terminated", "truncated"))
        done = terminated | truncated
        # TorchRL resets one step after the last and keeps the true successor in "next". If that differs from the next
        # row although no episode ended, the trajectory was cut from outside.
        cut = torch.zeros_like(done)
        cut[:-1] = ~done[:-1] & (after[:-1] != obs[1:]).reshape(*done[:-1].shape, -1).any(-1)
        return Rollout(
            obs=torch.cat([obs, after[-1:]]),
            actions=self._actions(batch),
            terminated=terminated,
            truncated=truncated | cut,
            final_obs=after[done | cut],
        )

    def _reset_after_jump(self, rollout: Rollout) -> None:
        """Forget the running episodes where a collector reset its environments between two batches."""
        before, self._last_states = self._last_states, rollout.states[rollout.next_state_index[-1]]
        if before is None or before.shape != rollout.obs[0].shape:
            return
        elsewhere = (before != rollout.obs[0]).reshape(rollout.num_envs, -1).any(1).cpu().numpy()
        if (elsewhere & self.reward_host.running).any():
            self.reward_host.reset_episodes()

    def _states(self, batch: Any) -> Tensor:
        values: Tensor = batch[self.obs_key]
        spec = self.reward_host.reward.observation_spec
        if spec.kind == "discrete" and values.shape[2:] == (spec.size,):
            values = values.argmax(-1) + spec.start  # TorchRL writes Discrete observations one-hot
        return values.transpose(0, 1).reshape(values.shape[1], values.shape[0], *spec.shape)

    def _actions(self, batch: Any) -> Tensor:
        actions: Tensor = batch[self.action_key].transpose(0, 1)
        spec = self.reward_host.reward.action_spec
        if len(spec.nvec) == 1 and actions.shape[2:] == (spec.nvec[0],):
            actions = actions.argmax(-1) + spec.starts[0]
        return actions.reshape(*actions.shape[:2], *spec.shape)

    def _flag(self, batch: Any, name: str) -> Tensor:
        return batch["next", name].squeeze(-1).transpose(0, 1).bool()  # type: ignore[no-any-return]
