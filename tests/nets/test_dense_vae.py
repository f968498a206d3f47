"""A dense VAE trained in NumPy gets the weights that autograd and Adam give it."""

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from threadpoolctl import threadpool_info, threadpool_limits

import mmrs
from mmrs.functional.losses import gaussian_kl, vae_loss
from mmrs.nets import dense_vae
from mmrs.nets import threads as blas_threads
from mmrs.nets.dense_vae import train_dense
from mmrs.nets.flat import can_flatten
from mmrs.nets.vae import VAE
from mmrs.spaces import observation_spec

LATENT, VARIANCE = 5, 0.1


def make(latent=LATENT, bounded=True):
    torch.manual_seed(0)
    vae = VAE(observation_spec(spaces.Box(-np.inf, np.inf, (6,), np.float32)), latent).eval().double()
    if bounded:
        with torch.no_grad():  # log variances on both sides of the upper bound
            vae.encoder.heads.bias[-2:] = torch.tensor([9.99, 10.01])
            vae.encoder.heads.weight[-2:] = 0.0
    return vae, torch.optim.Adam(vae.parameters(), 1e-3, fused=True)


def data(batches=3, latent=LATENT):
    torch.manual_seed(1)
    return torch.randn(batches, 8, 6).double(), torch.randn(batches, 8, latent).double()


def train_by_autograd(vae, optimizer, batches, noise):
    measured = []
    for x, drawn in zip(batches, noise, strict=True):
        mean, log_variance = vae.encode(x)
        reconstruction = vae.decode(mean + (0.5 * log_variance).exp() * drawn)
        optimizer.zero_grad()
        vae_loss(x, reconstruction, mean, log_variance, VARIANCE).mean().backward()
        optimizer.step()
        with torch.no_grad():
            measured.append([gaussian_kl(mean, log_variance).mean(), (x - reconstruction).square().mean()])
    return torch.tensor(measured).mean(0)


@pytest.mark.parametrize(("latent", "bounded"), [(LATENT, True), (LATENT, False), (256, False), (256, True)])
def test_weights_moments_and_measurements_are_those_of_autograd(latent, bounded):
    (vae, adam), (other, other_adam) = make(latent, bounded), make(latent, bounded)
    for _ in range(2):  # the second pass goes on from the first one's moments
        measured = train_dense(vae, adam, *data(latent=latent), VARIANCE)
        wanted = train_by_autograd(other, other_adam, *data(latent=latent))
        torch.testing.assert_close(measured, wanted, check_dtype=False)
    torch.testing.assert_close(vae.state_dict(), other.state_dict())
    torch.testing.assert_close(adam.state_dict(), other_adam.state_dict())


def test_weights_keep_their_memory_and_share_none():
    vae, adam = make()
    addresses = [p.data_ptr() for p in vae.parameters()]
    twin = copy.deepcopy(vae)
    train_dense(vae, adam, *data(), VARIANCE)
    assert [p.data_ptr() for p in vae.parameters()] == addresses
    storages = {p.untyped_storage().data_ptr() for p in vae.parameters()}
    storages |= {m.untyped_storage().data_ptr() for s in adam.state.values() for m in s.values()}
    assert len(storages) == 4 * len(addresses)
    assert all(not torch.equal(a, b) for a, b in zip(vae.parameters(), twin.parameters(), strict=True))


def test_a_pass_that_is_interrupted_leaves_a_whole_network(monkeypatch):
    vae, adam = make()
    addresses = [p.data_ptr() for p in vae.parameters()]
    batches, noise = data()
    other, other_adam = make()
    train_by_autograd(other, other_adam, batches[:1], noise[:1])
    step, calls = torch.optim.Adam.step, []

    def interrupted(self, *args):
        calls.append(self)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return step(self, *args)

    monkeypatch.setattr(torch.optim.Adam, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_dense(vae, adam, batches, noise, VARIANCE)
    assert [p.data_ptr() for p in vae.parameters()] == addresses
    torch.testing.assert_close(vae.state_dict(), other.state_dict())  # the first batch was learned
    torch.testing.assert_close(adam.state_dict(), other_adam.state_dict())


def test_products_take_the_threads_of_torch(monkeypatch):
    blas_threads._libraries.cache_clear()  # an earlier test may have filled it before SciPy loaded its BLAS
    inside = []
    original = dense_vae._gradient

    def look(*args):
        inside.extend(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")
        return original(*args)

    monkeypatch.setattr(dense_vae, "_gradient", look)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(2, user_api="blas"):
            train_dense(*make(), *data(), VARIANCE)
            after = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
    finally:
        torch.set_num_threads(threads)
    assert set(inside) == {1} and set(after) == {2}


def test_weights_that_are_not_trained_and_other_optimizers_use_torch():
    space = spaces.Box(-1, 1, (6,), np.float32)
    bonus = mmrs.make("mmrs", space, spaces.Discrete(2), batch_size=8)
    assert can_flatten(bonus.vae, bonus.optimizer)
    frozen = bonus.vae.encoder.trunk[0].weight.requires_grad_(False)
    kept = frozen.clone()
    assert not can_flatten(bonus.vae, bonus.optimizer)
    bonus._train_epoch(torch.randn(2, 8, 6), torch.randn(2, 8, 256))
    assert torch.equal(frozen, kept)
    assert not can_flatten(make()[0], torch.optim.SGD(make()[0].parameters(), 0.1))
    assert not can_flatten(make()[0], torch.optim.Adam(make()[0].parameters(), amsgrad=True))
