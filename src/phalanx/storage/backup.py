"""Backups of a store in SQLite files. A backup can be made while a head uses the store, and
restored while no head runs.

A backup is one tar file of mode 0600: a manifest, the file of each shard, and the history of jobs.
Each copy shows the state of its file at one moment. Batches are written to the first shard last,
and the first shard is copied first. So every row to which the first shard's copy refers is in the
other copies.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO
from urllib.parse import quote

import msgspec

from phalanx.storage.errors import StorageCorruptError, StorageError
from phalanx.storage.ledger import ENDING
from phalanx.storage.opening import mark_path
from phalanx.storage.private_files import FileLock, prepare_file
from phalanx.storage.sqlite import MARK, exists

FORMAT = "phalanx-backup/1"
_MANIFEST = "manifest.json"
_HISTORY = "history.db"
_BLOCK = 2**20


class Part(msgspec.Struct, kw_only=True):
    """One file of a backup."""

    name: str
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, kw_only=True):
    """The contents of a backup."""

    format: str = FORMAT
    version: str
    """The release of Phalanx that made the backup."""
    at: float
    """The time of the backup, in seconds since the epoch."""
    cluster: str
    epoch: int
    sequence: int
    """The number of the last batch in the first shard."""
    parts: list[Part]


def back_up(addresses: Sequence[str], target: str, *, version: str, at: float) -> Manifest:
    """Write a backup of the store at these addresses to a new file.

    Raises StorageError for a store that is not in files, or a file that exists.
    """
    paths = [_file_of(address) for address in addresses]
    for path in paths:
        if not os.path.exists(path):
            raise StorageError(f"There is no store at {path}: name it with --store.")
    files = {f"shard-{number}.db": path for number, path in enumerate(paths)}
    if os.path.exists(history := paths[0] + ENDING):
        files[_HISTORY] = history
    with _new_file(target) as out, tempfile.TemporaryDirectory(dir=_folder(target)) as folder:
        parts, head = [], (0, "", 0)
        for name, path in files.items():
            copy = os.path.join(folder, name)
            with _clear_errors(path):
                _snapshot(path, copy)
                head = _head(copy) if name == "shard-0.db" else head
            parts.append(Part(name=name, bytes=os.path.getsize(copy), sha256=_sum(copy)))
        epoch, cluster, sequence = head
        manifest = Manifest(
            version=version, at=at, cluster=cluster, epoch=epoch, sequence=sequence, parts=parts
        )
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            _add(tar, _MANIFEST, io.BytesIO(msgspec.json.encode(manifest)), at)
            for part in parts:
                with open(os.path.join(folder, part.name), "rb") as file:
                    _add(tar, part.name, file, at)
        out.flush()
        os.fsync(out.fileno())
    return manifest


def restore(source: str, addresses: Sequence[str], *, replaces: bool) -> Manifest:
    """Restore a backup as the store at these addresses, while no head runs.

    The whole backup is checked before anything is changed. With `replaces`, an existing store is
    deleted. Raises StorageInUseError while a head runs, StorageCorruptError for a damaged backup,
    and StorageError for other faults.
    """
    paths = [_file_of(address) for address in addresses]
    with contextlib.ExitStack() as held:
        try:
            tar = held.enter_context(tarfile.open(source, "r:"))
        except OSError as error:
            raise StorageError(f"{source} cannot be read: {error.strerror or error}.") from error
        except tarfile.TarError as error:
            raise _damaged(source, str(error)) from error
        manifest = _manifest(tar, source)
        shards = [part.name for part in manifest.parts if part.name != _HISTORY]
        if len(shards) != len(paths):
            raise StorageError(
                f"{source} holds {len(shards)} shards, and {len(paths)} places are named: name "
                "each with --store, in the order of `phalanx start`."
            )
        places = dict(zip(shards, paths, strict=True)) | {_HISTORY: paths[0] + ENDING}
        for path in paths:
            if exists(path) and not replaces:
                raise StorageError(f"There is a store at {path}: --replace deletes it first.")
            prepare_file(path, beside=())
            lock = FileLock(path + ".lock", guards=path)
            held.callback(lock.close)
        new = {}
        for part in manifest.parts:
            new[part.name] = prepare_file(places[part.name] + ".restored", beside=())
            held.callback(_discard, new[part.name])
            _extract(tar, part, new[part.name], source)
        for path in paths:
            for ending in (MARK, "-wal", "-shm", ENDING + "-wal", ENDING + "-shm", ENDING):
                _discard(path + ending)
        for name, path in new.items():
            os.rename(path, places[name])
        for folder in {_folder(path) for path in paths}:
            _sync(folder)
    return manifest


def _file_of(address: str) -> str:
    path = mark_path(address, "").removesuffix(MARK)
    if not path:
        raise StorageError(
            f"{address.rsplit('@', 1)[-1]} is no file: a store in memory is never kept, and a "
            "Redis server makes its own backups (docs/howto/operations.md)."
        )
    return path


@contextlib.contextmanager
def _new_file(path: str) -> Iterator[IO[bytes]]:
    """Open a new private file, whose contents the block writes. If the block fails, the file is
    deleted.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.") from error
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
    except BaseException:
        _discard(path)
        raise


def _snapshot(path: str, copy: str) -> None:
    """Copy the state of an SQLite file at one moment, although its writer continues."""
    with (
        contextlib.closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True)) as source,
        contextlib.closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")  # the copy is one file
        answer = target.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if answer != "ok":
        raise StorageCorruptError(f"{path} is damaged: {answer}. No backup was made.")


def _head(copy: str) -> tuple[int, str, int]:
    with contextlib.closing(sqlite3.connect(copy)) as db:
        epoch, cluster, sequence = db.execute(
            "SELECT epoch, cluster, sequence FROM head"
        ).fetchone()
    return int(epoch), str(cluster), int(sequence)


def _add(tar: tarfile.TarFile, name: str, file: IO[bytes], at: float) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = file.seek(0, os.SEEK_END), 0o600, int(at)
    file.seek(0)
    tar.addfile(entry, file)


def _manifest(tar: tarfile.TarFile, source: str) -> Manifest:
    try:
        file = tar.extractfile(_MANIFEST)
        assert file is not None
        manifest = msgspec.json.decode(file.read(_BLOCK), type=Manifest)
    except (KeyError, AssertionError, tarfile.TarError, msgspec.MsgspecError) as error:
        raise _damaged(source, "it has no manifest") from error
    names = [part.name for part in manifest.parts]
    expected = [f"shard-{number}.db" for number in range(len(names))]
    if manifest.format != FORMAT or names not in (expected, [*expected[:-1], _HISTORY]):
        raise StorageError(
            f"{source} has the format {manifest.format!r}, and this release reads {FORMAT}: "
            f"restore it with release {manifest.version}."
        )
    return manifest


def _extract(tar: tarfile.TarFile, part: Part, path: str, source: str) -> None:
    sum_ = hashlib.sha256()
    try:
        file = tar.extractfile(part.name)
        assert file is not None
        with open(path, "wb") as out:
            while block := file.read(_BLOCK):
                sum_.update(block)
                out.write(block)
            out.flush()
            os.fsync(out.fileno())
    except (KeyError, AssertionError, tarfile.TarError) as error:
        raise _damaged(source, f"{part.name} is missing or cut") from error
    if sum_.hexdigest() != part.sha256:
        raise _damaged(source, f"{part.name} is not what was written")


def _damaged(source: str, reason: str) -> StorageCorruptError:
    return StorageCorruptError(f"{source} is no whole backup: {reason}. Nothing was changed.")


def _sum(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _folder(path: str) -> str:
    return os.path.dirname(os.path.abspath(path))


def _discard(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _sync(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def _clear_errors(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StorageError(f"{path} cannot be copied: {error}.") from error
