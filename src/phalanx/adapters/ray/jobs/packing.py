"""Packs a directory as a package: a zip file whose name identifies its content."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from io import BytesIO
from pathlib import Path
from typing import IO, NoReturn

from phalanx.runtime.environments.packed_files import EXCLUDE, check_name, naming_the_file

LEFT_OUT = (".git", ".venv", "venv", "__pycache__")
"""Directories that never belong to a package, as in Ray."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time stamp of all files, so that equal files make equal packages."""


def pack(
    root: Path, excludes: Sequence[str] = (), *, with_its_name: bool = False
) -> tuple[str, IO[bytes]]:
    """Return (URI, file) of the package for a directory, a module that is one file, or an archive.

    A zip file or wheel is a package already. `excludes` are patterns of paths below the directory.
    With `with_its_name`, the directory itself is in the package, as is necessary for a module.
    Raises ValueError for a path that does not exist, and for a file that cannot be packed.
    """
    with naming_the_file(str(root), EXCLUDE):
        return _pack(root, excludes, with_its_name)


def _pack(root: Path, excludes: Sequence[str], with_its_name: bool) -> tuple[str, IO[bytes]]:
    if not root.exists():
        raise ValueError(
            f"{root} is not a valid path: working_dir and py_modules must name directories"
        )
    if root.is_file() and root.suffix in (".zip", ".whl"):
        data = root.read_bytes()
        whole = hashlib.sha256(data).hexdigest()
        return f"gcs://_ray_pkg_{whole[:32]}{root.suffix}", BytesIO(data)
    top = root.parent if with_its_name or root.is_file() else root
    file = BytesIO()
    digest = hashlib.sha256()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _files(root, list(excludes)):
            name = path.relative_to(top).as_posix()
            check_name(path, name, EXCLUDE)
            data = path.read_bytes()
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = (path.stat().st_mode & 0o777 | 0o100000) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
            for part in (name.encode(), b"%o" % entry.external_attr, data):
                digest.update(b"%d:" % len(part) + part)
    file.seek(0)
    return f"gcs://_ray_pkg_{digest.hexdigest()[:32]}.zip", file


def _files(root: Path, excludes: list[str]) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for directory, below, names in os.walk(root, onerror=_refuse, followlinks=True):
        here = Path(directory)
        below[:] = sorted(
            name
            for name in below
            if name not in LEFT_OUT and not _is_excluded((here / name).relative_to(root), excludes)
        )
        for name in sorted(names):
            path = here / name
            if path.is_file() and not _is_excluded(path.relative_to(root), excludes):
                yield path


def _refuse(error: OSError) -> NoReturn:
    raise error


def _is_excluded(path: Path, excludes: Iterable[str]) -> bool:
    """Whether a pattern matches this path or its name; a leading / means the package's top."""
    for pattern in excludes:
        plain = pattern.strip("/")
        if fnmatch(path.as_posix(), plain) or ("/" not in plain and fnmatch(path.name, plain)):
            return True
    return False
