"""Acting on a group of environments and keeping what the learner will need: a GPU graph a step, or few NumPy calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mmrs.nets.conv_inference import ConvInference, fits_inference
from mmrs.nets.cuda_graphs import Captured, as_words, copy_words, fetched, seen_from
from mmrs.ppo.ppo import PPO

Values = NDArray[Any]
PENDING = -1
"""Stands in the host's actions until a GPU has written them. Neither choices nor numbers have these bits: as half of a
choice it would be negative, as a number one of the NaNs that no arithmetic gives."""
LOOKS = 10_000
"""How often to look for actions, about a microsecond each, before asking the GPU itself."""


class ActingNetwork:
    """Raw observations to distribution parameters and values side by side, ``[B, A + heads]``: what acting needs."""

    def __init__(self, ppo: PPO) -> None:
        self.ppo = ppo
        fast = fits_inference(ppo.network) and not ppo.config.bf16
        self._inference = ConvInference(ppo.network) if fast else None

    def refresh(self) -> None:
        """Take over the weights as they are now; before every rollout."""
        if self._inference is not None:
            self._inference.refresh()

    def __call__(self, obs: Tensor) -> Tensor:
        """The network's outputs."""
        return torch.cat(self.ppo.forward(obs), 1) if self._inference is None else self._inference(obs)


def make_actor(
    ppo: PPO,
    network: ActingNetwork,
    num_steps: int,
    num_envs: int,
    obs_dtype: torch.dtype,
    device: torch.device,
    shared: bool,
) -> Actor:
    """The fastest actor for this network on this device."""
    plain = device.type == "cpu" and ppo.observation.kind == "vector" and not ppo.config.bf16
    if plain and obs_dtype == torch.float32:
        return VectorActor(ppo, network, num_steps, num_envs)
    return Actor(ppo, network, num_steps, num_envs, obs_dtype, device, shared)


class Actor:
    """Acts for n environments over rollouts of T steps; observations and network outputs stay on the device.

    On a GPU a step is one captured graph: reading the host's observations, the forward pass, sampling, writing the
    host's actions and row t of everything that is kept. The row number lives on the device too, so that every step is
    the same graph.
    """

    def __init__(
        self,
        ppo: PPO,
        network: ActingNetwork,
        num_steps: int,
        num_envs: int,
        obs_dtype: torch.dtype,
        device: torch.device,
        shared: bool = False,
    ) -> None:
        """Args:
        ppo: whose policy acts.
        network: its network, laid out for acting.
        num_steps: T.
        num_envs: n.
        obs_dtype: of the observations kept.
        device: of the network.
        shared: sleep while the GPU works instead of spinning, for the sake of other runs on the machine.
        """
        self.ppo, self.network, self.device = ppo, network, device
        action, spec = ppo.network.action, ppo.observation
        actions = len(action.choices) or action.size
        whole = (num_steps, num_envs)
        self.obs = torch.zeros(num_steps + 1, num_envs, *spec.shape, dtype=obs_dtype, device=device)
        sizes = [action.size, ppo.network.value_heads]
        self._outputs = torch.zeros(*whole, sum(sizes), device=device)
        self.parameters, self.values = self._outputs.split(sizes, -1)
        kind = torch.int64 if action.choices else torch.float32
        self.actions = torch.zeros(*whole, actions, dtype=kind, device=device)
        self._noise = torch.zeros(*whole, action.size, device=device)
        self._row = torch.zeros(1, dtype=torch.int64, device=device)
        pinned = device.type == "cuda"
        self._inbox = torch.zeros(num_envs, *spec.shape, dtype=obs_dtype, pin_memory=pinned)
        self._outbox = torch.zeros(num_envs, actions, dtype=kind, pin_memory=pinned)
        self._seen, self._chosen = seen_from(device, self._inbox), seen_from(device, self._outbox)
        self._words: Values = self._outbox.numpy().view(np.int32)
        self._looks = 0
        self._done = torch.cuda.Event(blocking=True) if pinned and shared else None
        # Urgent: environments wait for it, while the bonus' training beside it has until the next rollout.
        self._graph = Captured(self._step, device=device, urgent=True)

    def begin(self, noise: Tensor) -> None:
        """Start a rollout with all its noise ``[T, n, A]``: Gumbel for choices, normal for numbers."""
        self._noise.copy_(noise)
        self._row.zero_()

    @torch.no_grad()
    def start(self, obs: Values) -> None:
        """Begin to act on the next step's observations; a GPU does so while the caller does something else."""
        np.copyto(self._inbox.numpy(), obs)
        self._words.fill(PENDING)
        self._looks = 0
        self._graph()
        if self._done is not None:
            self._done.record()

    def ready(self) -> bool:
        """Whether `result` would return at once; True where only waiting can tell."""
        if self._done is not None or self.device.type != "cuda":
            return True
        # Words that a kernel writes are seen before any event that follows them would be.
        if not np.count_nonzero(self._words == PENDING):
            return True
        self._looks += 1
        if self._looks < LOOKS:
            return False
        torch.cuda.current_stream(self.device).synchronize()  # also says what went wrong, where something has
        return True

    def result(self) -> Values:
        """Actions ``[n, A]``, as sampled, for the observations given last; overwritten by the next step."""
        if self._done is not None:
            self._done.synchronize()
        while not self.ready():
            pass
        return self._outbox.numpy()

    def _step(self) -> Tensor:
        obs = fetched(self._seen)
        outputs = self.network(obs)
        noise = self._noise.index_select(0, self._row).squeeze(0)
        actions = self.ppo.network.sample(outputs[:, : noise.shape[1]], noise)
        copy_words(actions, self._chosen)
        as_words(self.obs, 2).index_copy_(0, self._row, as_words(obs).unsqueeze(0))
        for place, value in ((self._outputs, outputs), (self.actions, actions)):
            place.index_copy_(0, self._row, value.unsqueeze(0))
        return self._row.add_(1)

    def finish(self, obs: Values) -> None:
        """End the rollout with the observations after its last step."""
        np.copyto(self._inbox.numpy(), obs)
        self.obs[-1].copy_(self._inbox, non_blocking=True)


class VectorActor(Actor):
    """On a CPU a small network's time is the calls: NumPy's cost a tenth of torch's, and only the policy is needed.

    Distribution parameters and values of the whole rollout are computed in one pass at its end.
    """

    def __init__(self, ppo: PPO, network: ActingNetwork, num_steps: int, num_envs: int) -> None:
        super().__init__(ppo, network, num_steps, num_envs, torch.float32, torch.device("cpu"))
        assert isinstance(ppo.network.policy, nn.Sequential)
        # Views: they follow the weights, which only ever change in place.
        layers = [layer for layer in ppo.network.policy if isinstance(layer, nn.Linear)]
        self._layers = [(layer.weight.detach().numpy().T, layer.bias.detach().numpy()) for layer in layers]
        self._obs_rows, self._noise_rows = self.obs.numpy(), self._noise.numpy()
        self._action_rows: Values = self.actions.numpy()
        self._t = 0

    def begin(self, noise: Tensor) -> None:
        """Start a rollout with all its noise ``[T, n, A]``: Gumbel for choices, normal for numbers."""
        super().begin(noise)
        if not self.ppo.network.action.choices:
            self._noise.mul_(self.ppo.network.log_std.detach().exp())
        self._t = 0

    def start(self, obs: Values) -> None:
        """Act on the next step's observations."""
        t, self._t = self._t, self._t + 1
        self._obs_rows[t] = obs
        parameters, actions = self._policy(obs), self._action_rows[t]
        if choices := self.ppo.network.action.choices:
            for i, part in enumerate(np.split(parameters + self._noise_rows[t], np.cumsum(choices)[:-1], 1)):
                np.argmax(part, 1, out=actions[:, i])
        else:
            np.add(parameters, self._noise_rows[t], out=actions)

    def result(self) -> Values:
        """Actions ``[n, A]``, as sampled, for the observations given last."""
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
