"""States in one file: what was saved comes back, and damage is noticed."""

import io
import json
import os
import random
import zipfile

import numpy as np
import pytest
import safetensors.torch
import torch

from mmrs.errors import InputError, StorageError
from mmrs.storage import state_file
from mmrs.storage.checkpoint import MANIFEST, STATE, TENSORS, _canonical, _hash, make_manifest

STATE_TREE = {
    "net": torch.arange(50.0),
    "mask": torch.tensor([True, False]),
    "array": np.arange(6, dtype=np.int16).reshape(2, 3),
    "nested": {"rows": [{"a": torch.ones(2, 2, dtype=torch.bfloat16)}, None], "pair": (1, 2.5), 3: "three"},
}


def same(one, other):
    if isinstance(one, torch.Tensor | np.ndarray):
        return type(one) is type(other) and one.dtype == other.dtype and bool((one == other).all())
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return type(one) is type(other) and one == other


def repacked(raw, drop=(), method=zipfile.ZIP_STORED, **extra):
    """The archive without some files, with others, or compressed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(buffer, "w", method) as new:
        for name in old.namelist():
            if name not in drop:
                new.writestr(name, extra.get(name, old.read(name)))
        for name in extra.keys() - set(old.namelist()):
            new.writestr(name, extra[name])
    return buffer.getvalue()


def test_what_was_saved_comes_back(tmp_path):
    path = tmp_path / "folder" / "state"
    for tree in ({"old": 1}, STATE_TREE):
        state_file.save(path, tree)
        assert same(state_file.load(path), tree)
    assert list(path.parent.iterdir()) == [path]
    assert state_file.to_bytes(STATE_TREE) == path.read_bytes()


def test_every_flip_and_truncation_is_noticed_or_changes_nothing():
    raw, rng = state_file.to_bytes(STATE_TREE), random.Random(0)
    noticed = 0
    for i in range(1000):
        content = bytearray(raw)
        if i % 4:
            content[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
        else:
            content = content[: rng.randrange(len(raw))]
        try:
            tree = state_file.from_bytes(bytes(content))
        except StorageError:
            noticed += 1
        else:
            assert same(tree, STATE_TREE)  # dates and permissions of the archive, say
    assert noticed > 800


def test_an_archive_that_is_not_a_state_is_refused():
    raw = state_file.to_bytes(STATE_TREE)
    other = zipfile.ZipFile(io.BytesIO(state_file.to_bytes({"other": torch.ones(3)})))
    for wrong in (
        b"",
        b"no archive",
        repacked(raw, drop=[MANIFEST]),
        repacked(raw, drop=[STATE]),
        repacked(raw, **{"more": b""}),
        repacked(raw, method=zipfile.ZIP_DEFLATED),
        repacked(raw, **{TENSORS: other.read(TENSORS)}),
        repacked(raw, **{MANIFEST: other.read(MANIFEST)}),
        repacked(raw, **{MANIFEST: b"{}"}),
    ):
        with pytest.raises(StorageError):
            state_file.from_bytes(wrong)


def test_a_file_of_torch_save_is_refused_and_its_code_is_not_run(tmp_path):
    ran = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return ran.touch, ()

    for tree in ({"bonus": torch.ones(2)}, {"bonus": Evil()}):
        torch.save(tree, tmp_path / "old")
        with pytest.raises(StorageError, match=r"torch\.save"):
            state_file.load(tmp_path / "old")
    assert not ran.exists()


def test_a_state_that_cannot_be_saved_leaves_the_old_file(tmp_path):
    path = tmp_path / "state"
    state_file.save(path, {"step": 1})
    for bad in ({"x": torch.tensor(float("nan"))}, {"x": object()}):
        with pytest.raises(InputError):
            state_file.save(path, bad)
    assert state_file.load(path) == {"step": 1}
    with pytest.raises(StorageError, match="folder"):
        state_file.save(path / "below", {"step": 2})


def test_links_and_pipes_are_refused(tmp_path):
    state_file.save(tmp_path / "state", {"step": 1})
    (tmp_path / "link").symlink_to(tmp_path / "state")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "missing"):
        with pytest.raises(StorageError):
            state_file.load(tmp_path / name)


def sealed(state, tensors, files=None):
    """An archive whose hashes are right, whatever its content."""
    content = {STATE: json.dumps(state).encode(), TENSORS: safetensors.torch.save(tensors)}
    manifest = make_manifest(0, 0, content)
    if files is not None:
        facts = json.loads(manifest)
        facts.pop("sha256")
        facts["files"] = files
        manifest = _canonical({**facts, "sha256": _hash(_canonical(facts))})
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, part in {**content, MANIFEST: manifest}.items():
            archive.writestr(name, part)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "raw",
    [
        sealed({"dict": [["a", {"array": "t"}]]}, {"t": torch.ones(2, dtype=torch.bfloat16)}),
        sealed({"dict": [["a", {"channels_last": "t"}]]}, {"t": torch.ones(2, 2)}),
        sealed({"dict": [["a", float("nan")]]}, {}),
        sealed({"dict": [["a", 1]]}, {}, files=[["x", "y"]]),
        sealed({"dict": [["a", 1]]}, {}, files={"x": "y"}),
    ],
    ids=["a type NumPy lacks", "a layout of other tensors", "a NaN", "files as a list", "files without hashes"],
)
def test_hostile_content_with_right_hashes_is_refused(raw):
    with pytest.raises(StorageError):
        state_file.from_bytes(raw)


def test_the_hostile_archives_differ_from_a_good_one_in_one_thing():
    good = sealed({"dict": [["a", {"array": "t"}]]}, {"t": torch.ones(2)})
    np.testing.assert_array_equal(state_file.from_bytes(good)["a"], np.ones(2, np.float32))
