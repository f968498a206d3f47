"""Gradients written by hand equal those of autograd."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from mmrs.functional.losses import gaussian_kl, vae_loss
from mmrs.nets.dense import DenseViews, TanhLayers, dense
from mmrs.nets.vae import VAE
from mmrs.nets.vjp import with_vjp
from mmrs.spaces import observation_spec


def layers(*sizes):
    torch.manual_seed(0)
    both = [(nn.Linear(i, o), nn.Tanh()) for i, o in pairwise(sizes)]
    return TanhLayers(*[layer for pair in both for layer in pair][:-1]).double()


def gradients(network):
    return {name: p.grad.clone() for name, p in network.named_parameters()}


@pytest.mark.parametrize("sizes", [(5, 3), (5, 8, 3), (5, 8, 6, 2)])
def test_dense_layers_and_their_gradient_are_those_of_sequential(sizes):
    network = layers(*sizes)
    x, gradient = torch.randn(7, 5).double().requires_grad_(), torch.randn(7, sizes[-1]).double()
    expected = nn.Sequential(*network)(x)
    expected.backward(gradient)
    wanted, grad_input = gradients(network), x.grad.clone()
    network.zero_grad(set_to_none=False)
    with torch.no_grad():
        torch.testing.assert_close(network(x), expected)
    views = DenseViews(list(network))
    for parameter in network.parameters():
        parameter.grad.fill_(7.0)  # is overwritten
    values = views.values(x.detach().numpy())
    np.testing.assert_allclose(values[-1], expected.detach().numpy())
    np.testing.assert_allclose(views.vjp(values, gradient.numpy(), to_input=True), grad_input.numpy())
    torch.testing.assert_close(gradients(network), wanted)


def test_dense_layers_may_follow_each_other_directly():
    first, second = nn.Linear(4, 6), nn.Linear(6, 2)
    x = torch.randn(3, 4)
    second(first(x)).sum().backward()
    with torch.no_grad():
        torch.testing.assert_close(dense(x, (first, second)), second(first(x)))
    wanted = first.weight.grad.clone()
    views = DenseViews([first, second])
    views.vjp(views.values(x.numpy()), np.ones((3, 2), np.float32))
    torch.testing.assert_close(first.weight.grad, wanted)


def test_the_input_is_left_as_it_is():
    x = torch.randn(3, 4)
    kept = x.clone()
    with torch.no_grad():
        dense(x, (nn.Tanh(), nn.Linear(4, 2)))
    torch.testing.assert_close(x, kept, rtol=0, atol=0)


def test_any_network_has_a_vjp():
    network, x = nn.Conv2d(1, 2, 3), torch.randn(2, 1, 5, 5)
    expected = network(x)
    expected.square().sum().backward()
    wanted = gradients(network)
    network.zero_grad()
    with torch.no_grad():  # where it is called does not matter
        out, vjp = with_vjp(network, x)
    assert not out.requires_grad
    vjp(2 * out)
    torch.testing.assert_close(gradients(network), wanted)


@pytest.mark.parametrize("shape", [(6,), (36, 36)], ids=["vector", "image"])
def test_the_gradient_of_the_vae_is_that_of_its_loss(shape):
    image = len(shape) == 2
    space = spaces.Box(0, 255, shape, np.uint8) if image else spaces.Box(-np.inf, np.inf, shape, np.float32)
    torch.manual_seed(0)
    vae = VAE(observation_spec(space), 5).eval().double()
    with torch.no_grad():  # log variances on both sides of the upper bound
        head = vae.encoder.log_variance if image else vae.encoder.heads
        head.bias[-2:] = torch.tensor([9.99, 10.01])
        head.weight[-2:] = 0.0
    x = torch.randn(4, 1, *shape).double() if image else torch.randn(4, *shape).double()
    noise = torch.randn(4, 5).double()
    mean, log_variance = vae.encode(x, "learn")
    reconstruction = vae.decode(mean + (0.5 * log_variance).exp() * noise)
    vae_loss(x, reconstruction, mean, log_variance, 0.1).mean().backward()
    wanted = gradients(vae)
    assert head.bias.grad[-2] != 0 == head.bias.grad[-1]
    vae.zero_grad()
    kl, error = vae.backward(x, noise, 0.1)
    torch.testing.assert_close(gradients(vae), wanted)
    torch.testing.assert_close(kl, gaussian_kl(mean, log_variance).mean())
    torch.testing.assert_close(error, (x - reconstruction).square().mean())


@pytest.mark.parametrize("shape", [(6,), (36, 36)], ids=["vector", "image"])
def test_the_mean_alone_is_the_mean(shape):
    space = spaces.Box(0, 255, shape, np.uint8) if len(shape) == 2 else spaces.Box(-1, 1, shape, np.float32)
    vae = VAE(observation_spec(space), 5).eval()
    x = torch.randn(4, 1, *shape) if len(shape) == 2 else torch.randn(4, *shape)
    with torch.no_grad():
        torch.testing.assert_close(vae.encode_mean(x), vae.encode(x)[0])
