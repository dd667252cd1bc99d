"""What job servers of this user keep on this machine: a token, packages, and who serves."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from phalanx.runtime.daemons import cluster_token

PIECE_BYTES = 1 << 20
UNPACKED_BYTES = 2 << 30
"""The most that the files of one package may have together."""
UNPACKED_RATIO = 100
"""A package unpacks to at most so many times its own size; text and tables do to ten or twenty."""
SMALL_BYTES = 64 << 20
"""Every package may unpack to this much, however small it is itself."""
MOST_FILES = 100_000
"""Files and directories of one package."""


def directory() -> Path:
    """Where all of it is; made with mode 0700."""
    path = Path.home() / ".phalanx" / "ray-jobs"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def token_file() -> str:
    """The file of the token that a request must bear, which is none of the cluster's; made where
    there is none."""
    path = str(directory() / "token")
    cluster_token.ensure(path)
    return path


def token() -> str:
    """The token itself. Raises AuthenticationError for a file that others may have read."""
    path = token_file()
    cluster_token.read(path)  # which checks the file
    return Path(path).read_text().strip()


class Body(Protocol):
    """What the rest of a request is read from."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; fewer at the end alone."""
        ...


class Packages:
    """Uploaded directories, unpacked once and used by all jobs that name them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def path(self, uri: str) -> str | None:
        """Where the package is unpacked; None for one that was not uploaded."""
        path = self._root / _name(uri)
        return str(path) if path.is_dir() else None

    def put(self, uri: str, stream: Body, size: int) -> None:
        """Read a zip file of `size` bytes and unpack it. Raises ValueError for what is none, and
        for one that unpacks to more than it may."""
        with tempfile.TemporaryDirectory(dir=self._root, prefix=".new-") as draft:
            file, unpacked = Path(draft, "package.zip"), Path(draft, "unpacked")
            with file.open("wb") as out:
                while size and (piece := stream.read(min(size, PIECE_BYTES))):
                    size -= len(piece)
                    out.write(piece)
            if size:
                raise ValueError(f"{size} bytes of {uri} did not arrive")
            try:
                _unpack(file, unpacked, uri)
            except zipfile.BadZipFile as error:
                raise ValueError(f"{uri} is no zip file: {error}") from None
            with contextlib.suppress(OSError):  # another request has put it there meanwhile
                unpacked.rename(self._root / _name(uri))

    def keep(self, uris: Collection[str]) -> None:
        """Delete all packages but these."""
        names = {_name(uri) for uri in uris}
        for path in self._root.iterdir():
            if path.name not in names:
                shutil.rmtree(path, ignore_errors=True)


def _name(uri: str) -> str:
    return uri.removeprefix("gcs://").removesuffix(".zip")


def _check_bounds(archive: zipfile.ZipFile, size: int, uri: str) -> None:
    """Raises ValueError, before anything is written. No member gives more bytes than its entry
    says: reading ends there."""
    members = archive.infolist()
    if len(members) > MOST_FILES:
        raise ValueError(
            f"{uri} has {len(members)} files and directories; a package may have {MOST_FILES}. "
            "Leave some out (excludes), or put them where all nodes read them."
        )
    unpacked = sum(member.file_size for member in members)
    limit = min(UNPACKED_BYTES, max(SMALL_BYTES, UNPACKED_RATIO * size))
    if unpacked > limit:
        raise ValueError(
            f"{uri} has {size} bytes and would unpack to {unpacked}; the limit is {limit}: at most "
            f"{UNPACKED_RATIO} times its own size where that is more than {SMALL_BYTES}, and never "
            f"more than {UNPACKED_BYTES}. Put large files where all nodes read them."
        )


def _unpack(file: Path, target: Path, uri: str) -> None:
    target.mkdir()
    with zipfile.ZipFile(file) as archive:
        _check_bounds(archive, file.stat().st_size, uri)
        for member in archive.infolist():
            path = archive.extract(member, target)  # which stays below `target`
            if not member.is_dir() and member.external_attr >> 16 & 0o100:
                os.chmod(path, 0o700)  # a script that can be run
