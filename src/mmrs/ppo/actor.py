"""Actors: choose actions for a group of environments and store what the learner needs of each step."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mmrs.nets.conv_inference import ConvInference, fits_inference
from mmrs.nets.cuda_graphs import CudaGraphed, as_words, copy_raw, device_view_of_pinned, to_device_memory
from mmrs.ppo.ppo import PPO

Values = NDArray[Any]
SENTINEL = -1
"""Value of the host's action words until the GPU has written them. No action has these bits: a discrete action would
be negative, and a continuous one would be a NaN that no arithmetic produces."""
MAX_POLLS = 10_000
"""Polls of the host's actions, about a microsecond each, before the stream is synchronized."""


class InferenceNetwork:
    """The forward pass for acting: raw observations to distribution parameters and values, ``[B, A + heads]``."""

    def __init__(self, ppo: PPO) -> None:
        self.ppo = ppo
        fast = fits_inference(ppo.network) and not ppo.config.bf16
        self._inference = ConvInference(ppo.network) if fast else None

    def refresh(self) -> None:
        """Copy the current weights; call it before every rollout."""
        if self._inference is not None:
            self._inference.refresh()

    def __call__(self, obs: Tensor) -> Tensor:
        """The network's outputs."""
        return torch.cat(self.ppo.forward(obs), 1) if self._inference is None else self._inference(obs)


def make_actor(
    ppo: PPO,
    network: InferenceNetwork,
    num_steps: int,
    num_envs: int,
    obs_dtype: torch.dtype,
    device: torch.device,
    cpu_shared: bool,
) -> Actor:
    """The fastest actor for this network on this device."""
    plain = device.type == "cpu" and ppo.observation.kind == "vector" and not ppo.config.bf16
    if plain and obs_dtype == torch.float32:
        return NumpyActor(ppo, network, num_steps, num_envs)
    return Actor(ppo, network, num_steps, num_envs, obs_dtype, device, cpu_shared)


class Actor:
    """Acts for n environments over rollouts of T steps; observations and network outputs stay on the device.

    On a GPU each step replays one captured graph. It reads the host's observations, runs the network, samples, and
    writes the host's actions and row t of all buffers. The row index is on the device too, so every step can replay
    the same graph.
    """

    def __init__(
        self,
        ppo: PPO,
        network: InferenceNetwork,
        num_steps: int,
        num_envs: int,
        obs_dtype: torch.dtype,
        device: torch.device,
        cpu_shared: bool = False,
    ) -> None:
        """Args:
        ppo: the learner whose policy acts.
        network: the forward pass of its network for acting.
        num_steps: T.
        num_envs: n.
        obs_dtype: type of the stored observations.
        device: device of the network.
        cpu_shared: block instead of spinning while the GPU works; for several runs on one machine.
        """
        self.ppo, self.network, self.device = ppo, network, device
        action, spec = ppo.network.action, ppo.observation
        actions = len(action.nvec) or action.size
        whole = (num_steps, num_envs)
        self.obs = torch.zeros(num_steps + 1, num_envs, *spec.shape, dtype=obs_dtype, device=device)
        sizes = [action.size, ppo.network.value_heads]
        self._outputs = torch.zeros(*whole, sum(sizes), device=device)
        self.parameters, self.values = self._outputs.split(sizes, -1)
        kind = torch.int64 if action.nvec else torch.float32
        self.actions = torch.zeros(*whole, actions, dtype=kind, device=device)
        self._noise = torch.zeros(*whole, action.size, device=device)
        self._row = torch.zeros(1, dtype=torch.int64, device=device)
        pinned = device.type == "cuda"
        self._host_obs = torch.zeros(num_envs, *spec.shape, dtype=obs_dtype, pin_memory=pinned)
        self._host_actions = torch.zeros(num_envs, actions, dtype=kind, pin_memory=pinned)
        self._device_obs, self._device_actions = (
            device_view_of_pinned(device, self._host_obs),
            device_view_of_pinned(device, self._host_actions),
        )
        self._action_words: Values = self._host_actions.numpy().view(np.int32)
        self._polls = 0
        self._done = torch.cuda.Event(blocking=True) if pinned and cpu_shared else None
        # High priority: environments wait for it, while the bonus' training has until the next rollout.
        self._graph = CudaGraphed(self._step, device=device, high_priority=True)

    def start_rollout(self, noise: Tensor) -> None:
        """Start a rollout with all its noise ``[T, n, A]``: Gumbel for discrete actions, normal for continuous ones."""
        self._noise.copy_(noise)
        self._row.zero_()

    @torch.no_grad()
    def start(self, obs: Values) -> None:
        """Start to act on the next observations; a GPU works while the caller does something else."""
        np.copyto(self._host_obs.numpy(), obs)
        self._action_words.fill(SENTINEL)
        self._polls = 0
        self._graph()
        if self._done is not None:
            self._done.record()

    def poll(self) -> bool:
        """Whether `result` would return at once; always True where this cannot be polled."""
        if self._done is not None or self.device.type != "cuda":
            return True
        # The host sees words that a kernel writes earlier than an event recorded after the kernel.
        if not np.count_nonzero(self._action_words == SENTINEL):
            return True
        self._polls += 1
        if self._polls < MAX_POLLS:
            return False
        torch.cuda.current_stream(self.device).synchronize()  # raises the error of a failed kernel
        return True

    def result(self) -> Values:
        """Sampled actions ``[n, A]`` for the last observations; the next step overwrites them."""
        if self._done is not None:
            self._done.synchronize()
        while not self.poll():
            pass
        return self._host_actions.numpy()

    def _step(self) -> Tensor:
        obs = to_device_memory(self._device_obs)
        outputs = self.network(obs)
        noise = self._noise.index_select(0, self._row).squeeze(0)
        actions = self.ppo.network.sample(outputs[:, : noise.shape[1]], noise)
        copy_raw(actions, self._device_actions)
        as_words(self.obs, 2).index_copy_(0, self._row, as_words(obs).unsqueeze(0))
        for buffer, value in ((self._outputs, outputs), (self.actions, actions)):
            buffer.index_copy_(0, self._row, value.unsqueeze(0))
        return self._row.add_(1)

    def finish(self, obs: Values) -> None:
        """End the rollout with the observations after its last step."""
        np.copyto(self._host_obs.numpy(), obs)
        self.obs[-1].copy_(self._host_obs, non_blocking=True)


class NumpyActor(Actor):
    """Acts with NumPy and runs only the policy: on a CPU, calls dominate small networks, and NumPy's are cheaper.

    Distribution parameters and values of the whole rollout are computed in one pass at its end.
    """

    def __init__(self, ppo: PPO, network: InferenceNetwork, num_steps: int, num_envs: int) -> None:
        super().__init__(ppo, network, num_steps, num_envs, torch.float32, torch.device("cpu"))
        assert isinstance(ppo.network.policy, nn.Sequential)
        # Views, so they always show the current weights, which only change in place.
        layers = [layer for layer in ppo.network.policy if isinstance(layer, nn.Linear)]
        self._layers = [(layer.weight.detach().numpy().T, layer.bias.detach().numpy()) for layer in layers]
        self._obs_rows, self._noise_rows = self.obs.numpy(), self._noise.numpy()
        self._action_rows: Values = self.actions.numpy()
        self._t = 0

    def start_rollout(self, noise: Tensor) -> None:
        """Start a rollout with all its noise ``[T, n, A]``: Gumbel for discrete actions, normal for continuous ones."""
        super().start_rollout(noise)
        if not self.ppo.network.action.nvec:
            self._noise.mul_(self.ppo.network.log_std.detach().exp())
        self._t = 0

    def start(self, obs: Values) -> None:
        """Act on the next step's observations."""
        t, self._t = self._t, self._t + 1
        self._obs_rows[t] = obs
        parameters, actions = self._policy(obs), self._action_rows[t]
        if nvec := self.ppo.network.action.nvec:
            for i, part in enumerate(np.split(parameters + self._noise_rows[t], np.cumsum(nvec)[:-1], 1)):
                np.argmax(part, 1, out=actions[:, i])
        else:
            np.add(parameters, self._noise_rows[t], out=actions)

    def result(self) -> Values:
        """Sampled actions ``[n, A]`` for the last observations."""
        return self._action_rows[self._t - 1]  # type: ignore[no-any-return]

    def _policy(self, obs: Values) -> Values:
        x = obs.reshape(len(obs), -1)
        *hidden, last = self._layers
        for weight, bias in hidden:
            x = x @ weight
            x += bias
            np.tanh(x, out=x)
        out: Values = x @ last[0] + last[1]
        return out

    @torch.no_grad()
    def finish(self, obs: Values) -> None:
        """End the rollout with the observations after its last step."""
        super().finish(obs)
        parameters, values = self.ppo.forward(self.obs[:-1].flatten(0, 1))
        self.parameters.copy_(parameters.view_as(self.parameters))
        self.values.copy_(values.view_as(self.values))
