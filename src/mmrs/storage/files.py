"""Writing results: the folder is tried before any work, and a file is there whole or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from mmrs.errors import InputError, StorageError


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


GRACE_SECONDS = 1.0
"""How long a lock may outlast its holder: processes that a killed run had started are copies of it, locks included,
and end a moment after it."""


def write_durably(path: Path, content: bytes) -> None:
    """Write a new file and wait until it is on the disk. Raises OSError, also when the file exists."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk: a rename is lost in a power cut otherwise."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_durably(path: Path, content: bytes) -> None:
    """Put a file in place whole or not at all, whatever happens meanwhile. Raises OSError."""
    draft = path.with_name(f".{path.name}.part")
    try:
        draft.unlink(missing_ok=True)
        write_durably(draft, content)
        draft.replace(path)
        sync_folder(path.parent)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def hold_lock(path: Path, *, wait: bool = False) -> int:
    """Lock a file, made if missing, and return its handle; `release_lock`, or the end of the process, gives it back.

    A file of its own and open for writing, since network disks lock nothing else across machines: a folder would be
    locked on one machine only.

    Raises:
        BlockingIOError: another process has it and is not just ending, and `wait` is not set.
        OSError: the disk cannot lock.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        if wait:
            fcntl.flock(handle, fcntl.LOCK_EX)
        else:
            _lock_within(handle, GRACE_SECONDS)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _lock_within(handle: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def release_lock(handle: int) -> None:
    """Give back what `hold_lock` gave, also if a copy of this process is left that has it too."""
    try:
        fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)


def read_regular(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes; links, pipes and devices are refused, never followed."""
    with open_regular(path) as (file, size):
        if size > limit:
            raise StorageError(f"{path} has {size} bytes, more than the {limit} that are believable.")
        return file.read(limit)


@contextlib.contextmanager
def open_regular(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """A regular file to read from, and its size; links, pipes and devices are refused, never followed."""
    try:
        # NONBLOCK: opening a pipe would wait for a writer for ever.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise StorageError(f"{path} is not a regular file.")
            with open(handle, "rb", closefd=False) as file:
                yield file, status.st_size
        finally:
            os.close(handle)
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}.") from error
