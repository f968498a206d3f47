"""A convolution after `space_to_depth` is the convolution of the images."""

import pytest
import torch
from torch.nn import functional as nnf

from mmrs.nets.space_to_depth import is_divisible, space_to_depth, space_to_depth_kernel


@pytest.mark.parametrize(("channels", "height", "width"), [(4, 84, 84), (3, 36, 48), (1, 40, 36)])
def test_a_convolution_over_blocks_is_the_convolution(channels, height, width):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (5, channels, height, width), dtype=torch.uint8, generator=generator)
    weight = torch.randn(6, channels, 8, 8, generator=generator).double().requires_grad_()
    expected = nnf.conv2d(images.double(), weight, stride=4)
    gradient = torch.randn(expected.shape, generator=generator).double()
    (wanted,) = torch.autograd.grad(expected, weight, gradient)
    blocks = space_to_depth(images)
    assert blocks.is_contiguous(memory_format=torch.channels_last)
    found = nnf.conv2d(blocks.double(), space_to_depth_kernel(weight))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found, weight, gradient)[0], wanted)


def test_only_images_of_whole_blocks_are_divisible():
    assert is_divisible(84, 84)
    assert not is_divisible(84, 82)


def test_the_memory_layout_of_images_does_not_matter():
    images = torch.randint(0, 256, (2, 36, 36, 3), dtype=torch.uint8).movedim(-1, 1)
    assert torch.equal(space_to_depth(images), space_to_depth(images.clone(memory_format=torch.contiguous_format)))
