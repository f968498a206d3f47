"""The network of images laid out for acting on a GPU, where a handful of images wait for every single kernel."""

from __future__ import annotations

import torch
from torch import Tensor

from mmrs.nets.actor_critic import ActorCritic, ConvTrunk, convolve_relu
from mmrs.nets.encoders import PIXEL_SCALE
from mmrs.nets.space_to_depth import block_kernel, divides


def fits_inference(network: ActorCritic) -> bool:
    """Whether `ConvInference` can stand in for a network."""
    on_gpu = network.log_std.is_cuda
    return on_gpu and isinstance(network.trunk, ConvTrunk) and divides(*network.observation.image_size)


class ConvInference:
    """The same function as the network's, with all that depends on weights alone worked out by `refresh`.

    The first kernel comes scaled and in blocks, the dense layer reads the channels last, as convolutions leave them,
    and both heads are one product. The copies stay in their places, so that captured graphs see every refresh.
    """

    def __init__(self, network: ActorCritic) -> None:
        self.network = network
        assert isinstance(network.trunk, ConvTrunk)
        self.trunk = network.trunk
        self._laid_out = [one.clone(memory_format=torch.preserve_format) for one in self._lay_out()]

    @torch.no_grad()
    def _lay_out(self) -> list[Tensor]:
        trunk, heads = self.trunk, (self.network.policy, self.network.value)
        channels = trunk.third.out_channels
        by_place = trunk.dense.weight.unflatten(1, (channels, -1)).transpose(1, 2).flatten(1)
        both = [torch.cat([getattr(head, name) for head in heads]) for name in ("weight", "bias")]
        return [block_kernel(trunk.first.weight * PIXEL_SCALE), by_place, *both]

    def refresh(self) -> None:
        """Take over the weights as they are now."""
        for place, value in zip(self._laid_out, self._lay_out(), strict=True):
            place.copy_(value)

    def __call__(self, obs: Tensor) -> Tensor:
        """Distribution parameters and values, ``[B, A + heads]``, of raw observations."""
        trunk, (first, dense, weight, bias) = self.trunk, self._laid_out
        x = convolve_relu(self.network.features(obs), first, trunk.first.bias, stride=1)
        x = convolve_relu(x, trunk.second.weight, trunk.second.bias, stride=2)
        x = convolve_relu(x, trunk.third.weight, trunk.third.bias, stride=1)
        x = torch.addmm(trunk.dense.bias, x.permute(0, 2, 3, 1).flatten(1), dense.T).relu_()
        return torch.addmm(bias, x, weight.T)
