"""The files of this user's job servers on this machine: a token, packages, and the servers'
addresses.
"""

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
from phalanx.runtime.os.private_files import make_directory

PIECE_BYTES = 1 << 20
UNPACKED_BYTES = 2 << 30
"""The most bytes of the unpacked files of one package."""
UNPACKED_RATIO = 100
"""The largest size of an unpacked package, as a multiple of the package's size. Unpacked text and
tables are ten to twenty times as large as packed.
"""
SMALL_BYTES = 64 << 20
"""The unpacked size in bytes that is always allowed. UNPACKED_RATIO limits only packages that
unpack to more.
"""
MOST_FILES = 100_000
"""The most files and directories in one package."""


def directory() -> Path:
    """Return the directory of these files; create it with mode 0700 if needed."""
    path = Path.home() / ".phalanx" / "ray-jobs"
    make_directory(path)
    return path


def token_file() -> str:
    """Return the path of the file with the token for job requests. The file is created if it does
    not exist.

    This token is not the cluster's token.
    """
    path = str(directory() / "token")
    cluster_token.ensure(path)
    return path


def token() -> str:
    """Return the token. Raises AuthenticationError for a file that other users may read."""
    path = token_file()
    cluster_token.read(path)  # `read_token` also checks the file
    return Path(path).read_text().strip()


class Body(Protocol):
    """The stream with the body of a request."""

    def read(self, size: int, /) -> bytes:
        """Read at most this many bytes; fewer only at the end."""
        ...


class Packages:
    """The uploaded packages. Each is unpacked once, and used by all jobs that name it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def path(self, uri: str) -> str | None:
        """Return the directory of an unpacked package; None if the package was not uploaded."""
        path = self._root / _name(uri)
        return str(path) if path.is_dir() else None

    def put(self, uri: str, stream: Body, size: int) -> None:
        """Read a zip file of `size` bytes and unpack it. Raises ValueError if the file is not a zip
        file, or is too large when unpacked.
        """
        with tempfile.TemporaryDirectory(dir=self._root, prefix=".new-") as draft:
            file, unpacked = Path(draft, "package.zip"), Path(draft, "unpacked")
            with file.open("wb") as out:
                while size and (piece := stream.read(min(size, PIECE_BYTES))):
                    size -= len(piece)
                    out.write(piece)
            if size:
                raise ValueError(f"the upload of {uri} ended {size} bytes early")
            try:
                _unpack(file, unpacked, uri)
            except zipfile.BadZipFile as error:
                raise ValueError(f"{uri} is not a zip file: {error}") from None
            # another request has uploaded the same package in the meantime
            with contextlib.suppress(OSError):
                unpacked.rename(self._root / _name(uri))

    def keep(self, uris: Collection[str]) -> None:
        """Delete all packages except these."""
        names = {_name(uri) for uri in uris}
        for path in self._root.iterdir():
            if path.name not in names:
                shutil.rmtree(path, ignore_errors=True)


def _name(uri: str) -> str:
    return uri.removeprefix("gcs://").removesuffix(".zip")


def _check_bounds(archive: zipfile.ZipFile, size: int, uri: str) -> None:
    """Check the sizes that the archive states, before anything is written. Raises ValueError. A
    file cannot turn out larger than stated, because reading ends at the stated size.
    """
    members = archive.infolist()
    if len(members) > MOST_FILES:
        raise ValueError(
            f"{uri} has {len(members)} files and directories; the limit is {MOST_FILES}. Leave "
            "some out (excludes), or put them in a directory that all nodes can read."
        )
    unpacked = sum(member.file_size for member in members)
    limit = min(UNPACKED_BYTES, max(SMALL_BYTES, UNPACKED_RATIO * size))
    if unpacked > limit:
        raise ValueError(
            f"{uri} has {size} bytes and would unpack to {unpacked} bytes. The limit is {limit}: "
            f"{UNPACKED_RATIO} times the package's size, at least {SMALL_BYTES} and at most "
            f"{UNPACKED_BYTES}. Put large files in a directory that all nodes can read."
        )


def _unpack(file: Path, target: Path, uri: str) -> None:
    target.mkdir()
    with zipfile.ZipFile(file) as archive:
        _check_bounds(archive, file.stat().st_size, uri)
        for member in archive.infolist():
            path = archive.extract(member, target)  # `extract` never leaves `target`
            if not member.is_dir() and member.external_attr >> 16 & 0o100:
                os.chmod(path, 0o700)  # keep scripts executable
