"""W&B with the real package, offline: what it wrote is read back and compared with the record."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mmrs.errors import InputError
from mmrs.runs import train as training
from mmrs.runs.folder import RunFolder
from mmrs.runs.loggers import WandbLogger
from mmrs.runs.metrics_log import read_metrics
from mmrs.runs.presets import default_config

wandb = pytest.importorskip("wandb")

BLOCK, HEADER = 1 << 15, 7
OWN = {"_step", "_runtime", "_timestamp"}
"""What W&B adds to each row."""


def records(path: Path) -> Iterator[Any]:
    """The records of a run file: a LevelDB log of protocol buffers, for which the package has no reader in Python."""
    from wandb.proto.wandb_internal_pb2 import Record  # noqa: PLC0415

    data, at, whole = path.read_bytes(), HEADER, b""
    assert data.startswith(b":W&B")
    while at < len(data):
        left = BLOCK - at % BLOCK
        if left < HEADER:  # no room for another header: the block is padded
            at += left
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        whole += data[at + HEADER : at + HEADER + size]
        at += HEADER + size
        if kind in (1, 4):  # whole in itself, or the last part
            yield Record.FromString(whole)
            whole = b""


def parts_of(run: RunFolder) -> list[list[Any]]:
    """The records that each attempt at the run left, in order of time."""
    return [list(records(path)) for path in sorted(run.wandb.glob("offline-run-*/run-*.wandb"))]


def logged(part: list[Any]) -> list[dict[str, float]]:
    items = [record.history.item for record in part if record.WhichOneof("record_type") == "history"]
    return [{"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in row} for row in items]


def run_of(part: list[Any]) -> Any:
    return next(record.run for record in part if record.WhichOneof("record_type") == "run")


def services(marker: Path) -> list[list[str]]:
    """Command lines of the package's processes that were started with a marker in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = ((folder / name).read_bytes() for name in ("cmdline", "environ"))
        except OSError:  # gone, or not ours
            continue
        if b"/wandb-" in command.split(b"\0")[0] and bytes(marker) in environment:
            found.append(command.decode().split("\0"))
    return found


def assert_ended(marker: Path) -> None:
    for _ in range(100):
        if not services(marker):
            return
        time.sleep(0.1)
    raise AssertionError(f"still running: {services(marker)}")


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """An empty home, and no wishes of the user's."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.chdir(folder)
    return folder


def test_a_stopped_and_resumed_run_is_one_wandb_run_with_the_rows_of_the_record(tmp_path, monkeypatch, home, capfd):
    config = default_config("CartPole-v1", "rnd")
    config = replace(config, root=tmp_path / "runs", name="a", steps=5 * 128, num_steps=32, wandb=True, quiet=True)
    config = replace(config, env=replace(config.env, num_envs=4), checkpoint_every=3, device="cpu")
    save, seen = training.store.save, []

    def stop_after(*arguments: Any) -> None:
        save(*arguments)
        seen.extend(services(home))
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(training.store, "save", stop_after)
    run, code = training.train(config)
    wandb.teardown()
    assert code == 128 + signal.SIGTERM
    # The service would report its troubles to its makers, even offline; this flag keeps it from that.
    assert any("--no-observability" in command for command in seen if command[0].endswith("wandb-core"))
    subprocess.run([sys.executable, "-m", "mmrs.cli", "train", "--resume", str(run.path)], check=True)
    assert_ended(home)
    said = capfd.readouterr()
    assert "wandb:" not in said.out + said.err

    parts, rows = parts_of(run), read_metrics(run.metrics).rows
    assert [len(logged(part)) for part in parts] == [3, 2]
    everything = [row for part in parts for row in logged(part)]
    assert [{name: row[name] for name in row.keys() - OWN} for row in everything] == rows
    assert [row["_step"] for row in everything] == [row["step"] for row in rows] == [128, 256, 384, 512, 640]
    told = [(run_of(part).run_id, run_of(part).display_name, run_of(part).project) for part in parts]
    assert told == [((run.wandb / "id").read_text(), "a", "mmrs")] * 2
    shown = {item.key: json.loads(item.value_json) for item in run_of(parts[0]).config.update if item.key != "_wandb"}
    assert shown == json.loads(run.config.read_text())["config"]
    assert list(home.iterdir()) == []
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["a"]


def test_runs_of_one_name_in_two_folders_are_two(tmp_path, home):
    runs = [RunFolder.create(tmp_path / root, "a") for root in ("one", "two")]
    for run in runs:
        logger = WandbLogger(run, {}, quiet=True)
        logger.write({"episode_return": 1.5, "text": "no number", "flag": True}, 10)
        logger.close()
    wandb.teardown()  # waits for what is still to be written
    assert_ended(home)
    parts = [part for run in runs for part in parts_of(run)]
    assert [[row.keys() - OWN for row in logged(part)] for part in parts] == [[{"episode_return"}]] * 2
    assert len({run_of(part).run_id for part in parts}) == 2


def test_a_mode_that_does_not_exist_is_refused(tmp_path, home, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "onlin")
    with pytest.raises(InputError, match=r"WANDB_MODE=onlin .*WANDB_MODE=offline"):
        WandbLogger(RunFolder.create(tmp_path, "a"), {}, quiet=True)


def test_a_service_that_dies_is_named(tmp_path, home):
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from mmrs.errors import StorageError\n"
        "from mmrs.runs.folder import RunFolder\n"
        "from mmrs.runs.loggers import WandbLogger\n"
        "logger = WandbLogger(RunFolder.create(Path(sys.argv[1]), 'a'), {}, quiet=True)\n"
        "children = Path(f'/proc/self/task/{os.getpid()}/children').read_text().split()\n"
        "os.kill(int(children[0]), signal.SIGKILL)\n"
        "try:\n"
        "    for step in range(1_000_000):\n"
        "        logger.write({'x': 1.0}, step)\n"
        "except StorageError as error:\n"
        "    logger.close()\n"
        "    print(error)\n"
    )
    told = subprocess.run([sys.executable, "-c", script, tmp_path], check=True, capture_output=True, text=True)
    assert "the process that writes for Weights & Biases is gone (Connection" in told.stdout
