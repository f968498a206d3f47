"""A state as one file: the files of a checkpoint, manifest and hashes included, in an uncompressed zip archive."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path
from typing import Any

from mmrs.errors import StorageError
from mmrs.storage.checkpoint import (
    LIMITS,
    MANIFEST,
    STATE,
    TENSORS,
    check_hashes,
    deserialize,
    make_manifest,
    read_manifest,
    serialize,
)
from mmrs.storage.files import read_regular, write_atomic

_ZIP_BYTES = 1 << 16
"""Most bytes of the archive in addition to its files."""
_ZIP_ERRORS = (zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError, EOFError, OSError, struct.error)
"""What `zipfile` raises on a damaged archive."""


def to_bytes(tree: dict[str, Any]) -> bytes:
    """Serialize nested dictionaries, lists and tuples of tensors, arrays, numbers and strings, all finite.

    Raises:
        InputError: the tree holds what cannot be saved.
    """
    files = serialize(tree)
    files[MANIFEST] = make_manifest(0, 0, files)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # without a time: equal states give equal bytes
    return buffer.getvalue()


def from_bytes(raw: bytes) -> dict[str, Any]:
    """The tree that `to_bytes` got, with tensors on the CPU.

    Raises:
        StorageError: the bytes are damaged, or were not made by `to_bytes`.
    """
    files = _unzip(raw)
    manifest = read_manifest(files.pop(MANIFEST))
    check_hashes(manifest, files)
    return deserialize(files)


def save(path: Path, tree: dict[str, Any]) -> None:
    """Write a state to a file, completely or not at all; its folder is made if missing.

    Raises:
        InputError: the tree holds what cannot be saved.
        StorageError: the file cannot be written. The old file, if there was one, is untouched.
    """
    raw = to_bytes(tree)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot make the folder {path.parent}: {error.strerror or error}.") from error
    write_atomic(path, raw)


def load(path: Path) -> dict[str, Any]:
    """The state that `save` wrote, with tensors on the CPU.

    Raises:
        StorageError: the file cannot be read, is damaged, or was not written by `save`.
    """
    return from_bytes(read_regular(path, sum(LIMITS.values()) + _ZIP_BYTES))


def _unzip(raw: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            infos = archive.infolist()
            if any(info.filename.endswith("/data.pkl") for info in infos):
                raise StorageError(
                    "it was written by torch.save, as older versions of mmrs did, and this version reads no pickle."
                )
            if sorted(info.filename for info in infos) != sorted((TENSORS, STATE, MANIFEST)):
                raise StorageError("it does not hold the files of a state.")
            for info in infos:
                if info.compress_type != zipfile.ZIP_STORED or info.file_size > LIMITS[info.filename]:
                    raise StorageError(f"{info.filename} is compressed or too large.")
            return {info.filename: archive.read(info) for info in infos}
    except _ZIP_ERRORS as error:
        raise StorageError("it is damaged, or not the file of a state.") from error
