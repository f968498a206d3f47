"""Images in blocks give the convolution of the images."""

import pytest
import torch
from torch.nn import functional as nnf

from mmrs.nets.space_to_depth import block_kernel, divides, image_blocks


@pytest.mark.parametrize(("channels", "height", "width"), [(4, 84, 84), (3, 36, 48), (1, 40, 36)])
def test_a_convolution_over_blocks_is_the_convolution(channels, height, width):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (5, channels, height, width), dtype=torch.uint8, generator=generator)
    weight = torch.randn(6, channels, 8, 8, generator=generator).double().requires_grad_()
    expected = nnf.conv2d(images.double(), weight, stride=4)
    slope = torch.randn(expected.shape, generator=generator).double()
    (wanted,) = torch.autograd.grad(expected, weight, slope)
    blocks = image_blocks(images)
    assert blocks.is_contiguous(memory_format=torch.channels_last)
    found = nnf.conv2d(blocks.double(), block_kernel(weight))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found, weight, slope)[0], wanted)


def test_images_of_no_whole_blocks_are_left_alone():
    assert divides(84, 84)
    assert not divides(84, 82)


def test_images_that_lie_otherwise_in_memory_are_read_alike():
    images = torch.randint(0, 256, (2, 36, 36, 3), dtype=torch.uint8).movedim(-1, 1)
    assert torch.equal(image_blocks(images), image_blocks(images.clone(memory_format=torch.contiguous_format)))
