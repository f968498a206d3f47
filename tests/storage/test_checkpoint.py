"""Checkpoints give back what they were given, keep two, and refuse what is not finite or not theirs."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.rollouts import FACTORIES, OBSERVATIONS, assert_same, fits, make_rollout, observed_by
from torch import nn

from mmrs.errors import InputError, StorageError
from mmrs.storage import checkpoint as store
from mmrs.storage.state_tree import decode, encode

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool, torch.int64, torch.int32, torch.int16,
    torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64,
]  # fmt: skip


def same(a, b, path="") -> None:
    """Equal with types, bits, keys' types and their order."""
    assert type(a) is type(b), f"{path}: {type(a)} is not {type(b)}"
    if isinstance(a, dict):
        assert [(type(k), k) for k in a] == [(type(k), k) for k in b], path
        for key in a:
            same(a[key], b[key], f"{path}/{key!r}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), path
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            same(x, y, f"{path}/{i}")
    elif isinstance(a, torch.Tensor):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride()), path
        assert a.contiguous().view(-1).view(torch.uint8).equal(b.contiguous().view(-1).view(torch.uint8)), path
    elif isinstance(a, np.ndarray | np.generic):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), path
    else:
        assert repr(a) == repr(b), path  # repr tells -0.0 from 0.0


def round_trip(folder: Path, tree: dict) -> dict:
    store.save(folder, 7, tree)
    step, loaded = store.load(folder)
    assert step == 7
    return loaded


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (5,), (2, 3, 4, 5)], ids=str)
def test_every_dtype_and_shape_comes_back(tmp_path, dtype, shape):
    values = (torch.randn(shape) * 100).to(torch.int16).to(dtype) if dtype != torch.bool else torch.rand(shape) > 0.5
    tree = {"t": values, "nested": [values.clone(), (values.clone(),)]}
    if dtype != torch.bfloat16:
        tree["array"] = values.numpy().copy()
        tree["number"] = values.numpy().reshape(-1)[0] if values.numel() else None
    same(round_trip(tmp_path, tree), tree)


def test_generators_optimisers_and_modules_continue_exactly(tmp_path):
    def make():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.LazyLinear(4))
        net(torch.zeros(2, 3, 6, 6))
        return net.to(memory_format=torch.channels_last)

    def learn(net, optimizer, generator, rng):
        for _ in range(3):
            x = torch.randn(5, 3, 6, 6, generator=generator) + float(rng.normal())
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()

    net = make()
    adam, gen, rng = torch.optim.Adam(net.parameters(), 1e-2), torch.Generator(), np.random.default_rng(3)
    learn(net, adam, gen, rng)
    tree = {
        "net": net.state_dict(),
        "adam": adam.state_dict(),
        "torch": gen.get_state(),
        "numpy": rng.bit_generator.state,
        "mt": np.random.MT19937(5).state,
    }
    loaded = round_trip(tmp_path, tree)
    same(loaded["numpy"], tree["numpy"])
    same(loaded["mt"], tree["mt"])
    twin = make()
    adam2, gen2, rng2 = torch.optim.Adam(twin.parameters(), 0.5), torch.Generator(), np.random.default_rng(9)
    twin.load_state_dict(loaded["net"])
    adam2.load_state_dict(loaded["adam"])
    gen2.set_state(loaded["torch"])
    rng2.bit_generator.state = loaded["numpy"]
    learn(net, adam, gen, rng)
    learn(twin, adam2, gen2, rng2)
    assert_same(dict(net.state_dict()), dict(twin.state_dict()))
    same(adam.state_dict(), adam2.state_dict())


@pytest.mark.parametrize("name", sorted(FACTORIES))
def test_every_reward_and_its_memory_come_back(tmp_path, name):
    space = OBSERVATIONS[observed_by(name, "vector")]
    reward = FACTORIES[name](space)
    rollouts = [make_rollout(space, seed=s) for s in range(3)]
    _, memory = reward.compute(rollouts[0])
    reward.update(rollouts[0])
    loaded = round_trip(tmp_path, {"reward": reward.state_dict(), "memory": memory})
    twin = FACTORIES[name](space, seed=5)
    twin.load_state_dict(loaded["reward"])
    twin_memory = loaded["memory"]
    for rollout in rollouts[1:]:
        (bonus, memory), (other, twin_memory) = reward.compute(rollout, memory), twin.compute(rollout, twin_memory)
        assert torch.equal(bonus, other)
        reward.update(rollout)
        twin.update(rollout)
    assert fits(name, observed_by(name, "vector"))


def test_tied_and_strided_tensors(tmp_path):
    base = torch.arange(24.0).reshape(2, 3, 4)
    tree = {
        "a": base,
        "again": base,
        "view": base[:, 1],
        "turned": base.permute(2, 0, 1),
        "parameter": nn.Parameter(base),
    }
    loaded = round_trip(tmp_path, tree)
    for key, value in tree.items():
        assert torch.equal(loaded[key], value), key
        assert type(loaded[key]) is torch.Tensor


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(2**130), 2**130), st.text(),
    st.floats(allow_nan=False, allow_infinity=False),
)  # fmt: skip
KEYS = st.one_of(st.text(), st.integers(), st.booleans(), st.none())
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4), st.lists(inner, max_size=3).map(tuple)
    ),
    max_leaves=20,
)


@settings(max_examples=300)
@given(TREES)
def test_any_tree_of_scalars_comes_back(tree):
    tensors, document = encode(tree)
    same(decode(json.loads(json.dumps(document)), tensors), tree)


def test_ordered_dictionaries_keep_their_order(tmp_path):
    loaded = round_trip(tmp_path, {"o": OrderedDict([("z", 1), ("a", 2)])})
    assert list(loaded["o"].items()) == [("z", 1), ("a", 2)]


WRAPPED = {
    "float": float,
    "tensor": lambda v: torch.tensor([0.0, v]),
    "array": lambda v: np.array([v, 1.0]),
    "number": np.float64,
    "bfloat16": lambda v: torch.tensor(v).bfloat16(),
}


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
def test_a_value_that_is_not_finite_never_reaches_the_disk(tmp_path, bad, wrap):
    with pytest.raises(InputError, match="optimizer/state/0/exp_avg is not finite"):
        store.save(tmp_path / "c", 1, {"optimizer": {"state": {0: {"exp_avg": wrap(bad)}}}})
    assert not (tmp_path / "c").exists()


def test_what_cannot_come_back_exactly_is_refused_with_its_place(tmp_path):
    loop: dict = {}
    loop["self"] = loop
    cases = {
        "object": (object(), "builtins.object"),
        "set": ({1, 2}, "builtins.set"),
        "bytes": (b"x", "builtins.bytes"),
        "key": ({1.5: 0}, "key 1.5"),
        "text array": (np.array(["a"]), "numpy array"),
        "objects": (np.array([object()]), "numpy array"),
        "sparse": (torch.eye(2).to_sparse(), "sparse"),
        "complex": (torch.zeros(2, dtype=torch.complex64), "complex64"),
        "loop": (loop, "nested more than"),
        "function": (test_tied_and_strided_tensors, "function"),
    }
    for name, (value, message) in cases.items():
        with pytest.raises(InputError, match=message):
            store.save(tmp_path / "c", 1, {"where": {name: value}})
    assert not (tmp_path / "c").exists()


def test_two_are_kept_and_the_newest_is_loaded(tmp_path):
    for step in (10, 20, 30, 25):  # a run resumed from 20 may save an earlier step later
        store.save(tmp_path, step, {"step": step})
    assert [entry.step for entry in store.checkpoints(tmp_path)] == [30, 25]
    assert store.load(tmp_path) == (25, {"step": 25})
    store.save(tmp_path, 25, {"step": 25, "again": True})
    assert store.load(tmp_path) == (25, {"step": 25, "again": True})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ckpt-000004-000000000025", "ckpt-000005-000000000025"]


def test_pruning_keeps_two_that_can_be_used(tmp_path):
    store.save(tmp_path, 1, {})
    damaged = store.save(tmp_path, 2, {})
    (damaged / store.STATE).write_bytes(b"{}")
    store.save(tmp_path, 3, {})
    assert [entry.step for entry in store.checkpoints(tmp_path)] == [1, 3]


def test_leftovers_of_a_kill_are_removed_and_nothing_else(tmp_path):
    store.save(tmp_path, 1, {})
    (tmp_path / ".part-abc").mkdir()
    (tmp_path / ".part-abc" / store.TENSORS).write_bytes(b"x")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").touch()
    (tmp_path / ".part-link").symlink_to(outside)
    (tmp_path / "notes.txt").write_text("mine")
    store.save(tmp_path, 2, {})
    assert not (tmp_path / ".part-abc").exists()
    assert (outside / "keep").exists()
    assert (tmp_path / "notes.txt").exists()


def test_no_checkpoint_and_no_folder_say_so(tmp_path):
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(StorageError, match="there is no checkpoint"):
            store.load(folder)


@pytest.mark.parametrize("step", [-1, 10**18])
def test_steps_out_of_range(tmp_path, step):
    with pytest.raises(InputError, match="step"):
        store.save(tmp_path, step, {})


def test_saving_is_fast_enough_not_to_be_noticed(tmp_path):
    tree = {str(i): torch.randn(100_000) for i in range(50)}  # 20 MB: both networks with Adam's state
    began = time.perf_counter()
    store.save(tmp_path, 1, tree)
    assert time.perf_counter() - began < 5


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot save step 3"):
        store.save(tmp_path / "file" / "checkpoints", 3, {})
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
