"""Kills, flipped bytes, full disks and hostile files: every damage to a checkpoint is noticed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from mmrs.errors import StorageError
from mmrs.storage import checkpoint as store

FLIPS = 300
KILLS = 40


def test_kill_nine_at_any_time_leaves_a_checkpoint_that_loads(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.kills", str(KILLS), tmp_path], capture_output=True, text=True, check=True
    )
    tally = json.loads(done.stdout)
    assert tally["kills"] == KILLS
    assert [tally[name] for name in ("unreadable", "lost", "mixed", "damaged")] == [0, 0, 0, 0], tally
    assert tally["leftovers"] > 0, "no kill hit inside a save: the test shows nothing"


def two(folder: Path) -> Path:
    """Two checkpoints; the newer one's folder."""
    for step in (1, 2):
        path = store.save(folder, step, {"net": torch.arange(200.0) + step, "step": step, "text": "x" * 100})
    return path


def test_every_flip_and_truncation_is_noticed_and_the_previous_one_used(tmp_path):
    newest, rng = two(tmp_path), random.Random(1)
    contents = {path: path.read_bytes() for path in newest.iterdir()}
    noticed = 0
    for i in range(FLIPS):
        path = rng.choice(sorted(contents))
        content = bytearray(contents[path])
        if i % 3 == 0:
            content = content[: rng.randrange(len(content))]
        elif i % 3 == 1:
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        else:
            content[rng.randrange(len(content))] = rng.randrange(256)
        changed = bytes(content) != contents[path]
        path.write_bytes(bytes(content))
        if changed:
            with pytest.warns(store.DamagedCheckpointWarning, match="checkpoint of step 1"):
                assert store.load(tmp_path)[0] == 1
        noticed += changed
        path.write_bytes(contents[path])
    assert noticed > 0.95 * FLIPS  # a random byte may be the one that was there
    assert store.load(tmp_path)[0] == 2


def test_every_byte_of_the_manifest_counts(tmp_path):
    newest = two(tmp_path)
    path = newest / store.MANIFEST
    content = path.read_bytes()
    swapped = {b" "[0]: b"\n", b"\n"[0]: b" "}  # still the same JSON, and not the file that was written
    for i, byte in enumerate(content):
        path.write_bytes(content[:i] + swapped.get(byte, bytes([byte ^ 0x20])) + content[i + 1 :])
        with pytest.warns(store.DamagedCheckpointWarning):
            assert store.load(tmp_path)[0] == 1


@pytest.mark.parametrize("name", [store.TENSORS, store.STATE, store.MANIFEST])
def test_missing_files_and_folders(tmp_path, name):
    newest = two(tmp_path)
    (newest / name).unlink()
    with pytest.warns(store.DamagedCheckpointWarning, match=name.partition(".")[0]):
        assert store.load(tmp_path)[0] == 1
    shutil.rmtree(newest)
    newest.mkdir()
    with pytest.warns(store.DamagedCheckpointWarning):
        assert store.load(tmp_path)[0] == 1
    for entry in store.checkpoints(tmp_path):
        (entry.path / store.MANIFEST).write_bytes(b"")
    with pytest.raises(StorageError, match=r"no checkpoint .* can be used.*000002.*000001"):
        store.load(tmp_path)


# --- full disks -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir()
    mounted = subprocess.run(  # quiet: it may well be forbidden
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=False, stderr=subprocess.DEVNULL
    )
    if mounted.returncode:
        pytest.skip("a disk can only be mounted by the superuser")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk_leaves_the_old_checkpoint(tmp_path):
    with small_disk(tmp_path / "disk", "6m") as disk:
        small = {"net": torch.zeros(400_000)}  # 1.6 MB
        store.save(disk / "c", 1, small)
        for megabytes in range(20):
            with pytest.raises(StorageError, match=r"cannot save step 2 .*No space left.*resume"):
                store.save(disk / "c", 2, {"net": torch.ones(1_200_000 + megabytes * 10_000)})
            step, tree = store.load(disk / "c")
            assert step == 1
            assert torch.equal(tree["net"], small["net"])
            assert not list((disk / "c").glob(".part-*")), "the space of the failed save was not freed"
        store.save(disk / "c", 3, small)


def test_a_file_that_may_not_grow_leaves_the_old_checkpoint(tmp_path):
    store.save(tmp_path, 1, {"net": torch.zeros(10)})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with pytest.raises(StorageError, match="cannot save step 2"):
            store.save(tmp_path, 2, {"net": torch.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert store.load(tmp_path)[0] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["ckpt-000001-000000000001"]


# --- hostile files --------------------------------------------------------------------------------------------------


class Bomb:
    def __reduce__(self):
        return (Path("/tmp/mmrs-test-pwned").touch, ())


def forge(path: Path, **files: bytes) -> None:
    """Put files into a checkpoint under a manifest that fits them: what somebody who knows the format can do."""
    facts = json.loads((path / store.MANIFEST).read_bytes())
    names = {"tensors": store.TENSORS, "state": store.STATE}
    for name, content in files.items():
        (path / names[name]).write_bytes(content)
        facts["files"][names[name]] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    seal(path, facts)


def seal(path: Path, facts) -> None:
    if isinstance(facts, dict):
        facts.pop("sha256", None)
        facts["sha256"] = hashlib.sha256(json.dumps(facts, indent=1).encode()).hexdigest()
    (path / store.MANIFEST).write_bytes(json.dumps(facts, indent=1).encode())


def header(text: bytes, claimed: int | None = None) -> bytes:
    return struct.pack("<Q", len(text) if claimed is None else claimed) + text


HOSTILE = {
    "pickle as tensors": {"tensors": pickle.dumps(Bomb())},
    "pickle as state": {"state": pickle.dumps(Bomb())},
    "a header of 2^60 bytes": {"tensors": header(b"{}", 1 << 60)},
    "a header of 90 MB": {"tensors": header(b" " * 90_000_000)},
    "a tensor beyond the file": {
        "tensors": header(b'{"x":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4]}}')
    },
    "a tensor of negative size": {"tensors": header(b'{"x":{"dtype":"F32","shape":[-1],"data_offsets":[4,0]}}')},
    "empty tensors": {"tensors": b""},
    "state nested a million deep": {"state": b"[" * 1_000_000},
    "state that is a list": {"state": b"[]"},
    "state with an unknown kind": {"state": b'{"pickle":"00000/net"}'},
    "state with a missing tensor": {"state": b'{"dict":[["net",{"tensor":"nope"}]]}'},
    "state that ignores a tensor": {"state": b'{"dict":[]}'},
    "state with unhashable keys": {"state": b'{"dict":[[[],1]]}'},
    "state with two kinds": {"state": b'{"dict":[],"tuple":[]}'},
    "state with NaN twice": {"state": b'{"dict":[["net",{"tensor":["00000/net"]}]]}'},
    "a number of a million digits": {"state": b"1" * 1_000_000},
}


@pytest.mark.parametrize("files", HOSTILE.values(), ids=HOSTILE)
def test_hostile_content_is_refused_fast_even_with_a_fitting_manifest(tmp_path, files):
    newest = two(tmp_path)
    forge(newest, **files)
    began = time.process_time()
    with pytest.warns(store.DamagedCheckpointWarning):
        assert store.load(tmp_path)[0] == 1
    assert time.process_time() - began < 1
    assert not Path("/tmp/mmrs-test-pwned").exists()


MANIFESTS = {
    "a list": [],
    "text": "x",
    "no files": {"format": 1, "number": 2, "step": 2},
    "files as text": {"format": 1, "number": 2, "step": 2, "files": "x"},
    "files elsewhere": {"format": 1, "number": 2, "step": 2, "files": {"../../etc/passwd": {}}},
    "sizes as text": {"format": 1, "number": 2, "step": 2, "files": {store.STATE: {"bytes": "9"}, store.TENSORS: []}},
    "another step": {"format": 1, "number": 2, "step": 3, "files": {store.STATE: {}, store.TENSORS: {}}},
}


@pytest.mark.parametrize("facts", MANIFESTS.values(), ids=MANIFESTS)
def test_hostile_manifests(tmp_path, facts):
    seal(two(tmp_path), facts)
    with pytest.warns(store.DamagedCheckpointWarning):
        assert store.load(tmp_path)[0] == 1


def test_a_format_of_the_future_is_named(tmp_path):
    newest = two(tmp_path)
    seal(newest, {**json.loads((newest / store.MANIFEST).read_bytes()), "format": 99})
    with pytest.warns(store.DamagedCheckpointWarning, match="format is 99"):
        store.load(tmp_path)


def test_links_pipes_and_devices_are_not_followed(tmp_path):
    newest = two(tmp_path / "c")
    secret = tmp_path / "secret"
    for make in (
        lambda p: p.symlink_to(secret),
        os.mkfifo,
        lambda p: p.symlink_to("/dev/zero"),
        lambda p: p.mkdir(),
    ):
        for name in (store.TENSORS, store.STATE, store.MANIFEST):
            content = (newest / name).read_bytes()
            secret.write_bytes(content)  # even when the content is right
            (newest / name).unlink()
            make(newest / name)
            began = time.perf_counter()
            with pytest.warns(store.DamagedCheckpointWarning):
                assert store.load(tmp_path / "c")[0] == 1
            assert time.perf_counter() - began < 1
            (newest / name).rmdir() if (newest / name).is_dir() else (newest / name).unlink()
            (newest / name).write_bytes(content)
    newest.rename(tmp_path / "elsewhere")
    newest.symlink_to(tmp_path / "elsewhere")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.load(tmp_path / "c")[0] == 1  # a linked checkpoint is none


def test_no_pickle_in_the_program():
    source = Path(store.__file__).parents[1]
    pickles = re.compile(r"import pickle|(?<!\.)torch\.(load|save)\(|allow_pickle|weights_only")
    parts = [part for part in source.iterdir() if part.is_dir() and part.name != "envs"]  # pipes of processes pickle
    assert {"storage", "runs", "ppo", "rewards"} <= {part.name for part in parts}
    for path in (path for part in parts for path in part.rglob("*.py")):
        assert not pickles.search(path.read_text()), path
