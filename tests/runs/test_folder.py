"""A run's folder: hostile names stay inside the root, nothing is overwritten, configurations come back."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmrs.errors import InputError, StorageError
from mmrs.runs.config import TrainConfig
from mmrs.runs.config_json import from_json, to_json
from mmrs.runs.folder import NAME, RunFolder, slug
from mmrs.runs.presets import ALL_PRESETS
from mmrs.storage import files as disk

HOSTILE = [
    "", ".", "..", "../x", "a/../../x", "/etc/x", "/", "a/b", "a\\b", "a\0b", "a\nb", "a b", "-rf", "~", "$HOME", "a;b",
    "a" * 101, "a" * 300, "ünïcode", "a\u202eb", "\u2215etc", "con.", "a:b", "a|b", "<script>", "..\x2f..", "%2e%2e",
    "ａ",
]  # fmt: skip


def everything(root: Path) -> set[Path]:
    return set(root.rglob("*"))


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_hostile_names_are_refused_and_nothing_is_made(tmp_path, name):
    before = everything(tmp_path)
    with pytest.raises(InputError, match="cannot name a run"):
        RunFolder.create(tmp_path / "root" / "deep", name)
    assert everything(tmp_path) == before


PIECES = st.sampled_from(
    ["..", ".", "/", "\\", "\0", "\n", "~", "a", "run", "link", "-", "%2e", "\u202e", "é", " ", "+", "="]
)
PLAIN = "abXY019._+=-"
NAMES = st.one_of(st.text(max_size=12), st.lists(PIECES, max_size=8).map("".join), st.text(PLAIN, max_size=12))


@settings(max_examples=2000)
@given(NAMES)
def test_no_name_leaves_the_root(tmp_path_factory, name):
    place = tmp_path_factory.getbasetemp() / "fuzz"
    root, outside = place / "root", place / "outside"
    outside.mkdir(parents=True, exist_ok=True)
    root.mkdir(exist_ok=True)
    if not (root / "link").is_symlink():
        (root / "link").symlink_to(outside)
    try:
        run = RunFolder.create(root, name)
    except InputError:
        pass
    else:
        assert run.path.parent == root.resolve()
        assert run.path.name == name
        run.path.rename(root / "taken")  # so that the same name can come again
        for child in (root / "taken").iterdir():
            child.rmdir()
        (root / "taken").rmdir()
    assert {p.name for p in place.iterdir()} == {"root", "outside"}
    assert not list(outside.iterdir())
    assert {p.name for p in root.iterdir()} == {"link"}


def test_an_existing_run_is_never_overwritten(tmp_path):
    run = RunFolder.create(tmp_path, "a")
    run.write_config(TrainConfig())
    before = run.config.read_bytes()
    with pytest.raises(InputError, match=r"exists already.*--resume"):
        RunFolder.create(tmp_path, "a")
    with pytest.raises(InputError, match="does not change"):
        run.write_config(TrainConfig(seed=5))
    assert run.config.read_bytes() == before
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    for name in ("file", "dangling", "empty"):
        with pytest.raises(InputError):
            RunFolder.create(tmp_path, name)
    assert (tmp_path / "file").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_a_root_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises((StorageError, InputError)):
        RunFolder.create(tmp_path / "file" / "root", "a")


@pytest.mark.parametrize("config", ALL_PRESETS.values(), ids=ALL_PRESETS)
def test_configurations_come_back(tmp_path, config):
    config = replace(config, name="x", bonus=replace(config.bonus, final_weight=0.5, options=("k=3", "preset=paper")))
    run = RunFolder.create(tmp_path, "a")
    run.write_config(config)
    assert RunFolder.open(run.path).read_config(TrainConfig) == config


def test_strict_keys(tmp_path):
    run = RunFolder.create(tmp_path, "a")
    run.write_config(TrainConfig())
    whole = json.loads(run.config.read_text())

    def changed(message: str, error=InputError, **edit):
        data = json.loads(json.dumps(whole))
        data["config"].update(edit.pop("top", {}))
        data["config"]["ppo"].update(edit.pop("ppo", {}))
        for key in edit.pop("drop", ()):
            del data["config"][key]
        data.update(edit)
        run.config.write_text(json.dumps(data))
        with pytest.raises(error, match=message):
            run.read_config(TrainConfig)

    changed(r"config\.ppo has the unknown key 'learning_rte'.*Did you mean 'learning_rate'", ppo={"learning_rte": 1.0})
    changed(r"config lacks steps.*another version", drop=["steps"])
    changed(r"config\.steps is 'many', expected of type int", top={"steps": "many"})
    changed(r"config\.steps is 'True', expected of type int", top={"steps": True})
    changed(r"config\.env is '3', expected an object", top={"env": 3})
    changed(r"schema 3, but this version of mmrs reads 1 to 2", error=StorageError, schema=3)
    changed(r"not the configuration", error=StorageError, more=1)
    run.config.write_text("{")
    with pytest.raises(StorageError, match="not valid JSON"):
        run.read_config(TrainConfig)
    run.config.write_text("[" * 100_000)
    with pytest.raises(StorageError, match="not valid JSON"):
        run.read_config(TrainConfig)


@dataclass(frozen=True)
class Inner:
    x: float = 1.0


@dataclass(frozen=True)
class Outer:
    a: tuple[int, ...] = (1, 2)
    b: tuple[str, float] = ("x", 0.5)
    c: Literal["u", "v"] = "u"
    d: int | None = None
    e: Path = Path("p")
    f: Inner = field(default_factory=Inner)
    g: bool = False


def test_kinds_of_fields():
    for config in (Outer(), Outer((), ("y", 2.0), "v", 3, Path("/q"), Inner(-0.0), True)):
        back = from_json(Outer, json.loads(json.dumps(to_json(config))))
        assert back == config
        assert isinstance(back.e, Path)
    for key, value in {"a": [1.5], "b": ["x"], "c": "w", "d": "3", "e": 3, "f": {"y": 1}, "g": 0}.items():
        with pytest.raises(InputError, match="config"):
            from_json(Outer, {**to_json(Outer()), key: value})


def test_opening_what_is_no_run(tmp_path):
    RunFolder.create(tmp_path, "alien-0").write_config(TrainConfig())
    with pytest.raises(InputError, match=r"no run in .*alien-1.*Did you mean 'alien-0'"):
        RunFolder.open(tmp_path / "alien-1")
    with pytest.raises(InputError, match="no run"):
        RunFolder.open(tmp_path / "no" / "such")
    with pytest.raises(InputError, match=r"a folder of runs; name one of the 1, such as .*alien-0"):
        RunFolder.open(tmp_path)


@pytest.mark.parametrize(
    "child", ["metrics.jsonl", "checkpoints", "videos", "tensorboard", "wandb", "evaluation.json", "config.json"]
)
def test_a_run_with_links_is_not_opened(tmp_path, child):
    run = RunFolder.create(tmp_path / "root", "a")
    run.write_config(TrainConfig())
    target = tmp_path / "target"
    if (run.path / child).is_dir():
        (run.path / child).rmdir()
    elif (run.path / child).exists():
        (run.path / child).rename(target)
    (run.path / child).symlink_to(target)
    with pytest.raises(InputError, match="is a link"):
        RunFolder.open(run.path)


def test_a_configuration_that_is_not_finite_never_reaches_the_disk(tmp_path):
    run = RunFolder.create(tmp_path, "a")
    with pytest.raises(InputError, match="not finite"):
        run.write_config(replace(TrainConfig(), bonus=replace(TrainConfig().bonus, weight=float("nan"))))
    assert not run.config.exists()
    assert {p.name for p in run.path.iterdir()} == {"checkpoints", "videos", "tensorboard"}


def test_a_run_is_trained_once_at_a_time(tmp_path):
    run = RunFolder.create(tmp_path, "a")
    with run.exclusive(), pytest.raises(InputError, match="another process"), run.exclusive():
        pass
    with run.exclusive():  # released, and can be had again
        pass


def test_what_is_given_back_no_copy_of_the_process_keeps(tmp_path):
    run = RunFolder.create(tmp_path, "a")
    with run.exclusive():
        if not (copy := os.fork()):
            time.sleep(60)
            os._exit(0)
    try:
        with run.exclusive():
            pass
    finally:
        os.kill(copy, signal.SIGKILL)
        os.waitpid(copy, 0)


def test_a_run_that_was_killed_is_free_when_the_last_of_its_processes_has_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "GRACE_SECONDS", 30)
    run = RunFolder.create(tmp_path, "a")
    read, write = os.pipe()
    if not (killed := os.fork()):
        with run.exclusive():
            if os.fork():
                os.kill(os.getpid(), signal.SIGKILL)
            os.read(read, 1)
            time.sleep(0.2)
            os._exit(0)
    os.waitpid(killed, 0)
    with pytest.raises(BlockingIOError), (run.path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.write(write, b"!")
    with run.exclusive():
        pass
    os.close(read)
    os.close(write)


def test_a_disk_that_cannot_lock_is_not_a_run_that_is_busy(tmp_path, monkeypatch):
    run = RunFolder.create(tmp_path, "a")

    def no_locks(handle, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(StorageError, match="No locks available"), run.exclusive():
        pass


@settings(max_examples=200)
@given(st.lists(st.text(max_size=60), max_size=4))
def test_plain_names_are_names(parts):
    assert NAME.fullmatch(slug(*parts))


def test_plain_names_read_well():
    assert slug("ALE/Alien-v5", "mmrs", "0") == "ALE-Alien-v5-mmrs-0"
