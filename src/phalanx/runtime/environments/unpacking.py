"""Unpacks packages, as the owner of the work, for members of jobs and for workers."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import zipfile
from collections.abc import Sequence

from phalanx.model.packages import MARK, MODULES, Package
from phalanx.model.readable import size

MOST_FILES = 100_000
MOST_BYTES = 8 << 30
"""MOST_FILES and MOST_BYTES: the largest numbers of files and of bytes to which a package may
unpack.
"""
_PIECE = 1 << 20


class UnpackError(Exception):
    """A package cannot be unpacked."""


def unpack_all(packages: Sequence[Package], files: str, home: str, mark: str) -> None:
    """Unpack the packages in the directory `files`: the working directory into `home`, and each
    module into a directory below `home`. Do nothing if that was done already.

    `mark` represents the packages in the file that records what was unpacked. Raises UnpackError
    and OSError.
    """
    marked = os.path.join(home, MARK)
    with contextlib.suppress(OSError), open(marked, encoding="ascii") as file:
        if file.read().strip() == mark:
            return
    modules = os.path.join(home, MODULES)
    shutil.rmtree(modules, ignore_errors=True)
    for number, package in enumerate(packages):
        target = home if package.kind == "working_dir" else os.path.join(modules, str(number))
        os.makedirs(target, exist_ok=True)
        unpack(os.path.join(files, package.file), target)
    with open(marked, "w", encoding="ascii") as file:
        file.write(f"{mark}\n")


def unpack(path: str, target: str) -> None:
    """Unpack the zip file at `path` below a directory. Raises UnpackError and OSError."""
    try:
        with zipfile.ZipFile(path) as archive:
            for entry in checked(archive):
                _write(archive, entry, target)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise UnpackError(f"the package is not a zip file that can be read: {error}") from None


def checked(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return the entries of a package. Raises UnpackError if they are too many or too large, or if
    an entry would not lie below the target.
    """
    entries = archive.infolist()
    total = sum(entry.file_size for entry in entries)
    if len(entries) > MOST_FILES or total > MOST_BYTES:
        raise UnpackError(
            f"the package has {len(entries)} files of {size(total)}; at most {MOST_FILES} files of "
            f"{size(MOST_BYTES)} are unpacked"
        )
    for entry in entries:
        parts = entry.filename.rstrip("/").split("/")
        if any(part in ("", ".", "..") or "\0" in part or "\\" in part for part in parts):
            raise UnpackError(
                f"the package has an entry that is no path below it: {entry.filename!r}"
            )
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise UnpackError(f"the package has an entry that is no file: {entry.filename!r}")
    return entries


def _write(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: str) -> None:
    path = os.path.join(target, entry.filename.rstrip("/"))
    if entry.is_dir():
        os.makedirs(path, exist_ok=True)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    mode = 0o700 if entry.external_attr >> 16 & 0o100 else 0o600
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # a job may have put a link there
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    left = entry.file_size
    with archive.open(entry) as source, open(os.open(path, flags, mode), "wb") as file:
        while left and (piece := source.read(min(_PIECE, left))):
            file.write(piece)
            left -= len(piece)
