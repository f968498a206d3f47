"""The folder of a run: configuration, metrics, checkpoints, videos. No run is ever overwritten."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mmrs import plugins
from mmrs.errors import InputError, RunBusyError, StorageError, did_you_mean
from mmrs.runs.config_json import from_json, to_json
from mmrs.runs.upgrade import SCHEMA, fill_added, upgrade_config, upgrade_settings
from mmrs.storage.files import hold_lock, read_regular, release_lock, write_atomic

T = TypeVar("T")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=-]{0,99}")
"""Names of runs: no character has a meaning in a path, a shell, a terminal or a web page."""
_CONFIG, _LOCK = "config.json", ".lock"
_CONFIG_LIMIT = 1 << 22


@dataclass(frozen=True)
class RunFolder:
    """The paths of one run. Make it with `create` or `open`."""

    path: Path

    @classmethod
    def create(cls, root: Path, name: str, *, exist_ok: bool = False) -> RunFolder:
        """A new folder for a run.

        Args:
            root: folder of runs; made if missing.
            name: name of the run.
            exist_ok: use an existing folder as it is, such as one that was only half made.

        Raises:
            InputError: the name has other characters than `NAME` allows, or a run of this name exists.
        """
        if not NAME.fullmatch(name) or name.endswith("."):
            raise InputError(
                f"{name[:120]!r} cannot name a run: use up to 100 letters, digits and . _ + = -, starting with a "
                "letter or digit and not ending with a dot."
            )
        try:
            root.mkdir(parents=True, exist_ok=True)
            path = root.resolve() / name
            # The pattern allows no name that could leave the root; this is a second check.
            if path.resolve().parent != root.resolve():
                raise InputError(f"the run {name!r} would lie outside {root}.")
            path.mkdir(exist_ok=exist_ok)
            run = cls(path)
            for folder in (run.checkpoints, run.videos, run.tensorboard):
                folder.mkdir(exist_ok=exist_ok)
        except FileExistsError as error:
            raise InputError(
                f"{root / name} exists already and is not overwritten. Choose another --name, or continue that run "
                f"with: mmrs train --resume {root / name}"
            ) from error
        except OSError as error:
            raise StorageError(f"cannot make the folder {root / name}: {error.strerror or error}.") from error
        return run

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The folder of an existing run.

        Raises:
            InputError: there is no run.
        """
        run = cls(path.resolve())
        if not run.config.is_file():
            raise InputError(f"there is no run in {path}: it holds no {_CONFIG}. {_nearby(path)}")
        # A run folder from elsewhere must not make us write where its links point.
        for child in (run.config, run.metrics, run.checkpoints, run.videos, run.tensorboard, run.wandb, run.evaluation):
            if child.is_symlink():
                raise InputError(f"{child} is a link; a run keeps its files in its own folder.")
        return run

    @property
    def name(self) -> str:
        """Name of the run, which is that of its folder."""
        return self.path.name

    @property
    def config(self) -> Path:
        """File of the configuration, written before the first step."""
        return self.path / _CONFIG

    @property
    def metrics(self) -> Path:
        """File of the metrics, one row per update."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        """Folder of checkpoints."""
        return self.path / "checkpoints"

    @property
    def videos(self) -> Path:
        """Folder of videos."""
        return self.path / "videos"

    @property
    def tensorboard(self) -> Path:
        """Folder of TensorBoard's event files."""
        return self.path / "tensorboard"

    @property
    def wandb(self) -> Path:
        """Folder of Weights & Biases, if it is used."""
        return self.path / "wandb"

    @property
    def evaluation(self) -> Path:
        """File of the results of `mmrs eval`."""
        return self.path / "evaluation.json"

    def write_config(self, config: Any, bonus: dict[str, Any] | None = None, loss: str | None = None) -> None:
        """Save a configuration (a frozen dataclass), once, with every option of its bonus.

        Args:
            config: the configuration.
            bonus: every option of the bonus.
            loss: name of a loss that replaces PPO's.
        """
        if self.config.exists():
            raise InputError(f"{self.config} exists already: the configuration of a run does not change.")
        self._write_config(config, bonus, {} if loss is None else {"loss": loss})

    def extend(self, config: Any, bonus: dict[str, Any]) -> None:
        """Replace the configuration by that of a longer run, with a list of the lengths it had; the rest stays."""
        saved = self._read()
        rest = {name: value for name, value in saved.items() if name not in ("schema", "config", "bonus")}
        lengths = [*rest.get("extended", []), saved["config"]["steps"]]
        self._write_config(config, bonus, rest | {"extended": lengths})

    def _write_config(self, config: Any, bonus: dict[str, Any] | None, rest: dict[str, Any]) -> None:
        data = {"schema": SCHEMA, "config": to_json(config), "bonus": to_json(bonus or {}), **rest}
        self.write_json(self.config, data)

    def read_config(self, kind: type[T]) -> T:
        """The configuration of the run, every key checked against `kind`; names of earlier versions are upgraded.

        The user's modules that the run imports are imported here too.
        """
        config = from_json(kind, self._read()["config"], f"{self.config}: config")
        plugins.load(getattr(config, "imports", ()))
        return config

    def read_bonus(self) -> dict[str, Any]:
        """Every option of the run's bonus, defaults included."""
        data = self._read()
        bonus = data.get("bonus", {})
        if not isinstance(bonus, dict):
            raise StorageError(f"{self.config}: bonus is {bonus!r}, expected an object.")
        return upgrade_settings(data["config"]["bonus"]["name"], bonus) if bonus else {}

    def read_loss(self) -> str | None:
        """Name of the loss that replaces PPO's; None: there is none."""
        loss = self._read().get("loss")
        if loss is not None and not isinstance(loss, str):
            raise StorageError(f"{self.config}: loss is {loss!r}, expected a name.")
        return loss

    def _read(self) -> dict[str, Any]:
        try:
            data = json.loads(read_regular(self.config, _CONFIG_LIMIT))
        except (ValueError, RecursionError) as error:
            raise StorageError(f"{self.config} is not valid JSON ({error}).") from error
        if not isinstance(data, dict) or data.keys() - {"bonus", "loss", "extended"} != {"schema", "config"}:
            raise StorageError(f"{self.config} is not the configuration of a run.")
        if data["schema"] not in range(1, SCHEMA + 1):
            raise StorageError(
                f"{self.config} has the schema {data['schema']!r}, but this version of mmrs reads 1 to {SCHEMA}. "
                "Use the version that wrote it."
            )
        if isinstance(data["config"], dict):
            upgrade = upgrade_config if data["schema"] == 1 else fill_added
            data["config"] = upgrade(data["config"])
        return data

    def write_json(self, path: Path, data: Any) -> None:
        """Write a JSON file atomically; values that are not finite are refused."""
        try:
            text = json.dumps(data, indent=2, allow_nan=False) + "\n"
        except ValueError as error:
            raise InputError(f"{path.name} would hold a value that is not finite.") from error
        write_atomic(path, text, durable=True)

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Lock the run for this process: two that train one run would mix their metrics."""
        try:
            handle = hold_lock(self.path / _LOCK)
        except BlockingIOError as error:
            raise RunBusyError(f"{self.path} is being trained by another process. Wait for it or stop it.") from error
        except OSError as error:
            raise StorageError(
                f"cannot lock {self.path / _LOCK}: {error.strerror or error}. Runs need a disk that can be written to "
                "and that has file locks."
            ) from error
        try:
            yield
        finally:
            release_lock(handle)  # the system does so when the process is killed


def _nearby(path: Path) -> str:
    """A hint at the run that may have been meant."""

    def runs(folder: Path) -> list[str]:
        return sorted(p.name for p in folder.iterdir() if (p / _CONFIG).is_file()) if folder.is_dir() else []

    if inside := runs(path):
        return f"It is a folder of runs; name one of the {len(inside)}, such as {path / inside[0]}"
    beside = runs(path.parent)
    return did_you_mean(path.name, beside) if beside else "Start one with: mmrs train"


def slug(*parts: str) -> str:
    """A name of a run from parts such as an environment's id; characters that names may not have become hyphens."""
    joined = "-".join(re.sub(r"[^A-Za-z0-9._+=]+", "-", part).strip("-.") for part in parts)
    return joined.lstrip("._+=-")[:100].rstrip(".-") or "run"
