"""Policy and value networks of the appendix, for images, vectors and Discrete states."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as nnf

from mmrs.functional.distributions import (
    categorical_log_prob,
    gaussian_log_prob,
    gumbel,
    sample_categorical,
)
from mmrs.nets.cuda_graphs import to_device
from mmrs.nets.encoders import PIXEL_SCALE, orthogonal_init
from mmrs.nets.space_to_depth import is_divisible, space_to_depth, space_to_depth_kernel
from mmrs.spaces import ActionSpec, ObservationSpec


class ActorCritic(nn.Module):
    """From observations ``[B, *obs]`` to distribution parameters ``[B, A]`` and values ``[B, heads]``.

    Images: 8x8, 4x4 and 3x3 convolutions and a dense layer, shared by both (Table "CNN-based"). Else two layers of 64
    with Tanh, one pair for the policy and one for the value (Table "MLP-based"; separate as in the cited code).
    """

    def __init__(
        self, observation: ObservationSpec, action: ActionSpec, value_heads: int = 1, *, bf16: bool = False
    ) -> None:
        super().__init__()
        self.observation, self.action, self.value_heads, self.bf16 = observation, action, value_heads, bf16
        self.is_image = observation.kind == "image"
        if self.is_image:
            self.trunk: nn.Module = ConvTrunk(observation)
            self.policy: nn.Module = orthogonal_init(nn.Linear(512, action.size), gain=0.01)
            self.value: nn.Module = orthogonal_init(nn.Linear(512, value_heads), gain=1.0)
        else:
            self.trunk = nn.Identity()
            self.policy = _tanh_layers(observation.size, action.size, gain=0.01)
            self.value = _tanh_layers(observation.size, value_heads, gain=1.0)
        # Unstated: the std of the Gaussian; state-independent and starting at 1, as in the cited code.
        self.log_std = nn.Parameter(torch.zeros(action.size), requires_grad=not action.nvec)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Distribution parameters and values."""
        if self.bf16:
            with torch.autocast(obs.device.type, torch.bfloat16):
                x = self.trunk(self._features(obs))
                parameters, values = self.policy(x), self.value(x)
            return parameters.float(), values.float()
        x = self.trunk(self._features(obs))
        return self.policy(x), self.value(x)

    def _features(self, obs: Tensor) -> Tensor:
        """Input of the first layer; images on a GPU after `space_to_depth`."""
        if self.is_image and obs.is_cuda and is_divisible(*self.observation.image_size):
            return space_to_depth(self.observation.images(obs))
        return self.observation.features(obs)

    def noise(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Noise ``[*shape, A]`` for `sample` with the present weights: drawn on the CPU, moved to their device."""
        whole, device = (*shape, self.action.size), self.log_std.device
        if self.action.nvec:
            return gumbel(to_device(torch.rand(whole, generator=generator), device))
        return self.log_std.detach().exp() * to_device(torch.randn(whole, generator=generator), device)

    def sample(self, parameters: Tensor, noise: Tensor) -> Tensor:
        """Actions ``[B, ...]``: categorical ones from 0 (the noise is Gumbel), or Gaussian ones."""
        if self.action.nvec:
            return sample_categorical(parameters, noise, self.action.nvec)
        return parameters + noise

    def mode(self, parameters: Tensor) -> Tensor:
        """The most likely actions."""
        return self.sample(parameters, torch.zeros_like(parameters))

    def log_prob(self, parameters: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log probability and entropy, each ``[B]``, of actions as `sample` gives them."""
        if self.action.nvec:
            return categorical_log_prob(parameters, actions, self.action.nvec)
        return gaussian_log_prob(parameters, self.log_std, actions)


class ConvTrunk(nn.Module):
    """8x8 Conv. 32, 4x4 Conv. 64, 3x3 Conv. 32, Dense 512, all ReLU; strides 4, 2, 1 as in the cited code."""

    def __init__(self, observation: ObservationSpec) -> None:
        super().__init__()
        self.first = orthogonal_init(nn.Conv2d(observation.channels, 32, 8, stride=4))
        self.second = orthogonal_init(nn.Conv2d(32, 64, 4, stride=2))
        self.third = orthogonal_init(nn.Conv2d(64, 32, 3, stride=1))
        with torch.no_grad():
            features = self._convolve(torch.zeros(1, observation.channels, *observation.image_size)).shape[1]
        self.dense = orthogonal_init(nn.Linear(features, 512))

    def _convolve(self, x: Tensor) -> Tensor:
        # The pixels' 1/255 is folded into the first kernel, which saves a pass over the images.
        kernel = self.first.weight * PIXEL_SCALE
        if x.shape[1] == self.first.in_channels:
            x = convolve_relu(x, kernel, self.first.bias, stride=4)
        else:
            x = convolve_relu(x, space_to_depth_kernel(kernel), self.first.bias, stride=1)
        x = convolve_relu(x, self.second.weight, self.second.bias, stride=2)
        return convolve_relu(x, self.third.weight, self.third.bias, stride=1).flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        """Features ``[B, 512]`` of pixels ``[B, C, H, W]``."""
        return nnf.relu_(self.dense(self._convolve(x)))


def convolve_relu(x: Tensor, weight: Tensor, bias: Tensor | None, stride: int) -> Tensor:
    """``relu(conv(x))``; one kernel in place of three while acting on a GPU, where latency decides."""
    if x.is_cuda and x.dtype == weight.dtype and not torch.is_grad_enabled() and not torch.is_autocast_enabled("cuda"):
        return torch.cudnn_convolution_relu(x, weight, bias, (stride, stride), (0, 0), (1, 1), 1)
    return nnf.relu_(nnf.conv2d(x, weight, bias, stride))


def _tanh_layers(size: int, out: int, gain: float) -> nn.Sequential:
    return nn.Sequential(
        orthogonal_init(nn.Linear(size, 64)),
        nn.Tanh(),
        orthogonal_init(nn.Linear(64, 64)),
        nn.Tanh(),
        orthogonal_init(nn.Linear(64, out), gain=gain),
    )
