"""Writing results: the folder is tried before any work, and a file is there whole or not at all."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from mmrs.errors import InputError


def output_folder(path: Path) -> Path:
    """`path` as a folder that exists and can be written to, or InputError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        # A trial file, since permission bits say nothing of read-only disks (nor to the superuser).
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"Cannot write to the folder {path}: {reason}. Choose another with --out.") from error


def write_whole(path: Path, content: str | bytes) -> Path:
    """Write beside the target, then rename over it: readers see the old file or the new one, never a part."""
    data = content.encode() if isinstance(content, str) else content
    draft = path.with_name(f".{path.name}.part")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # below a file there is nothing to take away
            draft.unlink()
        raise InputError(f"Cannot write {path}: {error.strerror or error}.") from error
    return path
