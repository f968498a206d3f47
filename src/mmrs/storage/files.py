"""Files on disk: output folders, atomic writes, locks, and reads that follow no links."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from mmrs.errors import InputError, StorageError

GRACE_SECONDS = 1.0
"""Seconds that a lock may outlast its holder: processes that a killed run had started inherit its locks and end a
moment after it."""
_DRAFT = ".part"


def output_folder(path: Path) -> Path:
    """Make the folder if it is missing and check that it can be written to; raises InputError otherwise."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        # A trial file, since permission bits do not show read-only disks (and do not bind the superuser).
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"Cannot write to the folder {path}: {reason}. Choose another with --out.") from error


def write_atomic(path: Path, content: str | bytes, *, durable: bool = False) -> Path:
    """Write a file beside the target and rename it: readers see the old file or the new one, never a part of it.

    Args:
        path: file to write or to replace; its folder must exist.
        content: what the file holds; text becomes UTF-8.
        durable: wait until the content and the name are on the disk, so that a power cut cannot lose them.

    Returns:
        The path.

    Raises:
        StorageError: the file cannot be written. The old file, if there was one, is untouched, unless only the wait for
            the disk failed: then the new one is there, and a power cut may still lose it.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_DRAFT}")
    try:
        _write_new(draft, content.encode() if isinstance(content, str) else content, sync=durable)
        draft.replace(path)
        if durable:
            sync_folder(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):  # where the folder cannot exist there is no draft either
            draft.unlink()
        if isinstance(error, OSError):
            raise StorageError(f"cannot write {path}: {error.strerror or error}.") from error
        raise
    return path


def is_draft(name: str) -> bool:
    """Whether a file of this name was left behind by a process that was killed inside `write_atomic`."""
    return name.startswith(".") and name.endswith(_DRAFT)


def write_synced(path: Path, content: bytes) -> None:
    """Write a new file and wait until its content is on the disk. Raises OSError, also when the file exists."""
    _write_new(path, content, sync=True)


def _write_new(path: Path, content: bytes, *, sync: bool) -> None:
    with path.open("xb") as file:
        file.write(content)
        if sync:
            file.flush()
            os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk: a rename is lost in a power cut otherwise."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def hold_lock(path: Path, *, wait: bool = False) -> int:
    """Lock a file, made if missing, and return its handle; `release_lock`, or the end of the process, unlocks it.

    Use a file of its own: on network disks only a file that is open for writing is locked across machines, a folder is
    locked on one machine only.

    Raises:
        BlockingIOError: another process holds the lock for longer than `GRACE_SECONDS`, and `wait` is not set.
        OSError: the disk has no locks.
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
    """Release a lock of `hold_lock`, also for copies of this process that inherited it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)


def read_regular(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes; links, pipes and devices are refused."""
    with open_regular(path) as (file, size):
        if size > limit:
            raise StorageError(f"{path} has {size} bytes, more than the limit of {limit}.")
        return file.read(limit)


@contextlib.contextmanager
def open_regular(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """Open a regular file for reading; yields it and its size. Links, pipes and devices are refused."""
    try:
        # NONBLOCK: opening a pipe would wait for a writer.
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
