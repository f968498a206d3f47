"""Checkpoints: safetensors and JSON with a manifest of hashes, without pickle.

A checkpoint is a folder ``ckpt-<number>-<step>`` of three files. It is written under another name, synced to the disk
and renamed, so a folder of that name is whole. `load` checks the hash of every file, since neither safetensors nor
torch notices a flipped byte, and falls back to the previous checkpoint when the newest is damaged.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
from safetensors import SafetensorError

from mmrs.errors import InputError, StorageError
from mmrs.storage.files import read_regular, sync_folder, write_synced
from mmrs.storage.state_tree import decode, encode

FORMAT = 1
KEEP = 2
"""Checkpoints kept: the newest, and one to fall back to."""
TENSORS, STATE, MANIFEST = "tensors.safetensors", "state.json", "MANIFEST.json"
LIMITS = {TENSORS: 8 << 30, STATE: 1 << 28, MANIFEST: 1 << 16}
"""Largest size of each file in bytes, so that a hostile one is refused before it fills the memory."""
_NAME = re.compile(r"ckpt-(\d{6,9})-(\d{12,18})")
_PART = ".part-"


class DamagedCheckpointWarning(UserWarning):
    """The newest checkpoint could not be used, and an older one was."""


class Entry(NamedTuple):
    """The folder of a checkpoint, by its name alone."""

    number: int
    """Number of the save in its run. The largest is the newest; a resumed run may save the same step again."""
    step: int
    path: Path


def save(folder: Path, step: int, tree: dict[str, Any]) -> Path:
    """Save the state of a run at a step; earlier checkpoints are untouched until this one is on the disk.

    Only one process may save to a folder at a time.

    Args:
        folder: folder of the run's checkpoints; made if missing.
        step: present step of the run.
        tree: nested dictionaries, lists and tuples of tensors, arrays, numbers and strings, all finite.

    Raises:
        InputError: the tree holds a value that cannot be saved. Nothing was written.
        StorageError: the disk is full or cannot be written. Earlier checkpoints are untouched.
    """
    if not 0 <= step < 10**18:
        raise InputError(f"the step must be from 0 to 10^18 - 1, not {step}.")
    files = serialize(tree)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder)
        number = max((entry.number for entry in checkpoints(folder)), default=0) + 1
        path = folder / f"ckpt-{number:06d}-{step:012d}"
        _put(folder, path, {**files, MANIFEST: make_manifest(number, step, files)})
        _prune(folder)
    except OSError as error:
        raise StorageError(
            f"cannot save step {step} to {folder}: {error.strerror or error}. Earlier checkpoints are untouched; "
            "free some space (or repair the disk) and resume."
        ) from error
    return path


def load(folder: Path) -> tuple[int, dict[str, Any]]:
    """The newest checkpoint that is whole: its step and its tree, with tensors on the CPU.

    Raises:
        StorageError: there is none; the message names the fault of each that was found.
    """
    faults = []
    for entry in reversed(checkpoints(folder)):
        try:
            tree = read(entry)
        except StorageError as error:
            faults.append(f"{entry.path.name}: {error}")
            continue
        if faults:
            warnings.warn(
                f"Using the checkpoint of step {entry.step}, since newer ones are damaged: {' '.join(faults)}",
                DamagedCheckpointWarning,
                stacklevel=2,
            )
        return entry.step, tree
    if faults:
        raise StorageError(f"no checkpoint in {folder} can be used. {' '.join(faults)}")
    raise StorageError(f"there is no checkpoint in {folder}. Was the run stopped before its first one?")


def checkpoints(folder: Path) -> list[Entry]:
    """The checkpoints of a folder, oldest first, by their names; links and other files are ignored."""
    if not folder.is_dir():
        return []
    matches = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir())
    found = [Entry(int(m[1]), int(m[2]), path) for m, path in matches if m]
    return sorted(entry for entry in found if entry.path.is_dir() and not entry.path.is_symlink())


def remove_leftovers(folder: Path) -> None:
    """Remove what a process left behind that was killed while saving."""
    for path in folder.glob(f"{_PART}*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)


def read(entry: Entry) -> dict[str, Any]:
    """The tree of one checkpoint. Raises StorageError if it is damaged, incomplete or of another format."""
    return deserialize(_verified(entry))


def serialize(tree: dict[str, Any]) -> dict[str, bytes]:
    """The content of the tensor file and the state file of a tree."""
    tensors, document = encode(tree)
    state = json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
    files = {TENSORS: safetensors.torch.save(tensors), STATE: state}
    for name, content in files.items():
        if len(content) > LIMITS[name]:
            most = LIMITS[name]
            raise InputError(f"the state needs {len(content)} bytes of {name}; the most a checkpoint takes is {most}.")
    return files


def deserialize(files: Mapping[str, bytes]) -> dict[str, Any]:
    """The tree that `serialize` got, with tensors on the CPU. Raises StorageError when the content is not ours."""
    try:
        tree = decode(json.loads(files[STATE], parse_constant=_refuse_constant), safetensors.torch.load(files[TENSORS]))
    # Type and runtime errors are those of tensors that cannot have the memory format or the type that the state names.
    except (ValueError, RecursionError, SafetensorError, KeyError, TypeError, RuntimeError, AttributeError) as error:
        raise StorageError(f"the content cannot be read ({type(error).__name__}: {str(error)[:200]}).") from error
    if not isinstance(tree, dict):
        raise StorageError(f"the state is a {type(tree).__name__}, expected a dictionary.")
    return tree


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not finite")


def make_manifest(number: int, step: int, files: Mapping[str, bytes]) -> bytes:
    """The manifest of serialized files: their sizes and hashes, and a hash of itself."""
    facts = {
        "format": FORMAT,
        "number": number,
        "step": step,
        "files": {name: _fingerprint(content) for name, content in files.items()},
    }
    return _canonical({**facts, "sha256": _hash(_canonical(facts))})


def read_manifest(raw: bytes) -> dict[str, Any]:
    """What `make_manifest` wrote. Raises StorageError when it is damaged or of another format."""
    facts = _facts(raw)
    if facts.get("format") != FORMAT:
        raise StorageError(f"the format is {facts.get('format')!r}, but this version of mmrs reads {FORMAT}.")
    return facts


def check_hashes(manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """Raise StorageError when a file is not the one that the manifest was made of."""
    for name, content in files.items():
        if manifest["files"].get(name) != _fingerprint(content):
            raise StorageError(f"{name} is damaged.")


def _put(folder: Path, path: Path, files: dict[str, bytes]) -> None:
    draft = Path(tempfile.mkdtemp(prefix=_PART, dir=folder))
    try:
        for name, content in files.items():
            write_synced(draft / name, content)
        sync_folder(draft)
        draft.replace(path)
        sync_folder(folder)
    except BaseException:  # KeyboardInterrupt too: nothing half-written stays
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _prune(folder: Path) -> None:
    # Damaged checkpoints do not count: after each save two can be used, if two were ever good.
    newest, *older = reversed(checkpoints(folder))
    good = [newest]
    for entry in older:
        if len(good) < KEEP and _is_whole(entry):
            good.append(entry)
        else:
            shutil.rmtree(entry.path, ignore_errors=True)


def _is_whole(entry: Entry) -> bool:
    try:
        return bool(_verified(entry))
    except StorageError:
        return False


def _verified(entry: Entry) -> dict[str, bytes]:
    facts = read_manifest(read_regular(entry.path / MANIFEST, LIMITS[MANIFEST]))
    if (facts.get("number"), facts.get("step")) != (entry.number, entry.step):
        raise StorageError(f"{MANIFEST} is of another checkpoint.")
    contents = {name: read_regular(entry.path / name, LIMITS[name]) for name in (STATE, TENSORS)}
    check_hashes(facts, contents)
    return contents


def _facts(raw: bytes) -> dict[str, Any]:
    try:
        facts = json.loads(raw)
        seal = facts.pop("sha256")
        # Byte for byte, since a damaged file can still be valid JSON.
        whole = _canonical({**facts, "sha256": seal}) == raw and seal == _hash(_canonical(facts))
        if whole and isinstance(facts["files"], dict) and facts["files"]:
            return dict(facts)
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
        pass
    raise StorageError(f"{MANIFEST} is damaged.")


def _fingerprint(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": _hash(content)}


def _canonical(facts: Any) -> bytes:
    return json.dumps(facts, indent=1).encode()


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
