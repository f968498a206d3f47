"""The network of images with its weights rearranged for acting on a GPU, where latency decides: fewer kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from mmrs.nets.actor_critic import ActorCritic, ConvTrunk, convolve_relu
from mmrs.nets.encoders import PIXEL_SCALE
from mmrs.nets.space_to_depth import is_divisible, space_to_depth_kernel


def fits_inference(network: ActorCritic) -> bool:
    """Whether `ConvInference` can replace a network."""
    on_gpu = network.log_std.is_cuda
    return on_gpu and isinstance(network.trunk, ConvTrunk) and is_divisible(*network.observation.image_size)


class ConvInference:
    """The same function as the network, with everything that depends on weights alone computed by `refresh`.

    The first kernel is scaled and rearranged by `space_to_depth_kernel`, the dense layer reads the channels last, as
    convolutions leave them, and both heads are one product. `refresh` writes in place, so that captured graphs see it.
    """

    def __init__(self, network: ActorCritic) -> None:
        self.network = network
        assert isinstance(network.trunk, ConvTrunk)
        self.trunk = network.trunk
        self._weights = [one.clone(memory_format=torch.preserve_format) for one in self._rearranged()]

    @torch.no_grad()
    def _rearranged(self) -> list[Tensor]:
        trunk, heads = self.trunk, (self.network.policy, self.network.value)
        channels = trunk.third.out_channels
        dense = trunk.dense.weight.unflatten(1, (channels, -1)).transpose(1, 2).flatten(1)
        both = [torch.cat([getattr(head, name) for head in heads]) for name in ("weight", "bias")]
        return [space_to_depth_kernel(trunk.first.weight * PIXEL_SCALE), dense, *both]

    def refresh(self) -> None:
        """Copy the current weights of the network."""
        for weight, value in zip(self._weights, self._rearranged(), strict=True):
            weight.copy_(value)

    def __call__(self, obs: Tensor) -> Tensor:
        """Distribution parameters and values, ``[B, A + heads]``, of raw observations."""
        trunk, (first, dense, weight, bias) = self.trunk, self._weights
        x = convolve_relu(self.network.features(obs), first, trunk.first.bias, stride=1)
        x = convolve_relu(x, trunk.second.weight, trunk.second.bias, stride=2)
        x = convolve_relu(x, trunk.third.weight, trunk.third.bias, stride=1)
        x = torch.addmm(trunk.dense.bias, x.permute(0, 2, 3, 1).flatten(1), dense.T).relu_()
        return torch.addmm(bias, x, weight.T)
