"""Packs directories and modules of a program as zip files, which are named by their contents."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from phalanx.model.ignoring import Rule, is_ignored, read_rules
from phalanx.model.packages import MOST_BYTES
from phalanx.model.readable import size
from phalanx.runtime.environments.packed_files import check_name, naming_the_file

IGNORE_FILES = (".gitignore", ".rayignore", ".phalanxignore")
"""Files in a directory with patterns of the paths that are left out. If they contradict each other,
the one that comes last here decides.
"""
ALWAYS_LEFT_OUT = (".git", ".venv", "venv", "__pycache__")
LARGE_BYTES = 10 << 20
"""The size in bytes from which a file counts as large. A note names the large files of a package,
as in Ray.
"""
MOST_UNPACKED = 8 << 30
_SHOWN = 5
_EPOCH = (1980, 1, 1, 0, 0, 0)
_IN_MEMORY = 16 << 20
_PIECE = 1 << 20


class Content(NamedTuple):
    """A file of a package."""

    path: Path
    name: str
    """The path of the file in the package."""
    size: int
    mode: int
    changed: int
    """The time of the last change of the file's content, in nanoseconds."""


class Packed:
    """A package in a file of this process. `files`: (path, bytes) of each file in the package."""

    def __init__(self, file: IO[bytes], files: list[tuple[str, int]]) -> None:
        self.file = file
        self.size = file.seek(0, os.SEEK_END)
        self.sha256 = _sha256(file)
        self.files = files

    def large(self) -> list[str]:
        """Return the names and sizes of the largest files among those of at least LARGE_BYTES."""
        found = [(length, name) for name, length in self.files if length >= LARGE_BYTES]
        return [f"{name} ({size(length)})" for length, name in sorted(found, reverse=True)[:_SHOWN]]


def pack(path: str, excludes: Sequence[str] = (), *, with_its_name: bool = False) -> Packed:
    """Return the package of a directory, of a module that is one file, or of a zip file or wheel.

    `excludes` are patterns as in .gitignore. With `with_its_name`, the directory itself is in the
    package, as is necessary for a module. Raises ValueError for a path that does not exist, for a
    file that cannot be packed, and for a package that is too large.
    """
    with naming_the_file(path):
        return _pack(path, excludes, with_its_name)


def _pack(path: str, excludes: Sequence[str], with_its_name: bool) -> Packed:
    found = contents(path, excludes, with_its_name=with_its_name)
    listed = [(one.name, one.size) for one in found]
    if (archive_path := _archive(path)) is not None:
        return _bounded(Packed(archive_path.open("rb"), listed), path)
    _check(sum(length for _, length in listed), MOST_UNPACKED, listed, path)
    packed = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 -- the caller closes it
    try:
        _write(packed, found)
    except OSError:
        packed.close()
        raise
    return _bounded(Packed(packed, listed), path)


def _write(packed: IO[bytes], found: Sequence[Content]) -> None:
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for one in found:
            entry = zipfile.ZipInfo(one.name, _EPOCH)
            entry.external_attr = (one.mode & 0o700 | 0o100000) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            with (
                one.path.open("rb") as source,
                archive.open(entry, "w", force_zip64=True) as target,
            ):
                while piece := source.read(_PIECE):
                    target.write(piece)


def contents(
    path: str, excludes: Sequence[str] = (), *, with_its_name: bool = False
) -> list[Content]:
    """Return the files that `pack` packs with these arguments, in a fixed order.

    The list has the sizes and times of all files, so two equal lists almost certainly mean equal
    packages. Raises ValueError for a path that does not exist, and for a file that cannot be
    packed.
    """
    with naming_the_file(path):
        return _contents(path, excludes, with_its_name)


def _contents(path: str, excludes: Sequence[str], with_its_name: bool) -> list[Content]:
    if (archive := _archive(path)) is not None:
        return [_content(archive, archive.name)]
    root = _root(path)
    if not root.exists():
        raise ValueError(f"{path} is not a valid path: there is no such directory or file")
    top = root.parent if with_its_name or root.is_file() else root
    found = [root] if root.is_file() else files_below(root, excludes)
    return [_content(one, one.relative_to(top).as_posix()) for one in found]


def name_in_package(path: str) -> str:
    """Return the name of a module in its own package; "" for a zip file or wheel, because its whole
    contents are on the path of modules.
    """
    return "" if _archive(path) is not None else _root(path).name


def _root(path: str) -> Path:
    """Return the absolute path, in which `~` stands for the home directory. Links are not
    followed, so the last name is the one that the caller gave.
    """
    return Path(os.path.abspath(os.path.expanduser(path)))


def _archive(path: str) -> Path | None:
    """Return the path if it is a file that needs no packing; None for any other path."""
    root = _root(path)
    return root if root.is_file() and root.suffix in (".zip", ".whl") else None


def _content(path: Path, name: str) -> Content:
    check_name(path, name)
    about = path.stat()
    return Content(path, name, about.st_size, about.st_mode, about.st_mtime_ns)


def _bounded(packed: Packed, path: str) -> Packed:
    try:
        _check(packed.size, MOST_BYTES, packed.files, path)
    except ValueError:
        packed.file.close()
        raise
    return packed


def _check(length: int, most: int, files: list[tuple[str, int]], path: str) -> None:
    if length > most:
        largest = sorted(files, key=lambda one: -one[1])[:_SHOWN]
        names = ", ".join(f"{name} ({size(bytes_)})" for name, bytes_ in largest)
        raise ValueError(
            f"{path} has {size(length)}; a package has at most {size(most)}. The largest files: "
            f"{names}. Leave files out with {IGNORE_FILES[-1]} or `excludes`, or put them where "
            "all nodes can read them."
        )


def files_below(root: Path, excludes: Sequence[str] = ()) -> Iterator[Path]:
    """Yield the files of a directory that belong to its package, in a fixed order."""
    last = read_rules(excludes)
    yield from _files(root, "", [], last, {root.resolve()})


def _files(
    at: Path, name: str, rules: list[Rule], last: list[Rule], above: set[Path]
) -> Iterator[Path]:
    entries = sorted(at.iterdir())
    for file in IGNORE_FILES:
        if (at / file).is_file():
            lines = (at / file).read_text("utf-8", "replace").splitlines()
            rules = rules + read_rules(lines, name)
    for path in entries:
        below = f"{name}/{path.name}" if name else path.name
        is_directory = path.is_dir()
        if is_ignored(below, is_directory, [*rules, *last]):
            continue
        if not is_directory:
            if path.is_file():  # no socket, device or broken link
                yield path
        elif path.name not in ALWAYS_LEFT_OUT and (real := path.resolve()) not in above:
            yield from _files(path, below, rules, last, above | {real})


def _sha256(file: IO[bytes]) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    while piece := file.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()
