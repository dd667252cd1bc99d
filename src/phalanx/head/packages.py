"""Packages at the head: uploaded in parts, and given to the nodes and workers that need them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any, Protocol

from phalanx.head.outbox import Outbox
from phalanx.model.packages import MOST_BYTES
from phalanx.model.readable import size
from phalanx.protocol.bundle_messages import FetchPackage, PackagePart
from phalanx.protocol.requests.packages import PackageRead, PutPackage, ReadPackage
from phalanx.protocol.requests.request import Asker, Entry

PART_BYTES = 1 << 20
"""The most bytes of a package in one message."""
_SHA256 = re.compile("[0-9a-f]{64}")


class PackageFiles(Protocol):
    """The files of packages."""

    def length(self, sha256: str) -> int:
        """Return how many bytes of a package are here, including the bytes of an unfinished upload.
        Return -1 if this head keeps no packages.
        """
        ...

    def has(self, sha256: str) -> bool:
        """Whether a package is here, and complete."""
        ...

    def add(self, sha256: str, offset: int, data: bytes, total: int) -> None:
        """Append a part to an upload. Raises OSError, and ValueError if the content is wrong."""
        ...

    def read(self, sha256: str, offset: int, limit: int) -> tuple[bytes, int]:
        """Return (a part of a package, the package's length); the length is -1 if there is no such
        package.
        """
        ...

    def make_room(self, wanted: int, kept: Collection[str]) -> None:
        """Delete the packages that were used longest ago, but none of `kept`, until there is room
        for `wanted` bytes. Raises ValueError if there is too little room.
        """
        ...


class NoPackageFiles:
    """The files of a head that takes no packages."""

    def length(self, sha256: str) -> int:
        """Return -1."""
        return -1

    def has(self, sha256: str) -> bool:
        """Return False."""
        return False

    def add(self, sha256: str, offset: int, data: bytes, total: int) -> None:
        """Raise ValueError."""
        raise ValueError("this head takes no packages")

    def read(self, sha256: str, offset: int, limit: int) -> tuple[bytes, int]:
        """Return no bytes and the length -1."""
        return b"", -1

    def make_room(self, wanted: int, kept: Collection[str]) -> None:
        """Do nothing."""


class Packages:
    """Takes uploads, and answers nodes and workers. `kept` returns the packages of jobs and drivers
    that are not over.
    """

    def __init__(
        self, files: PackageFiles, outbox: Outbox, kept: Callable[[], Collection[str]]
    ) -> None:
        self._files = files
        self._outbox = outbox
        self._kept = kept

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [PutPackage.handled_by(self._put), ReadPackage.handled_by(self._read)]

    def missing(self, wanted: Collection[str]) -> list[str]:
        """Return the wanted packages that are not here."""
        return [one for one in wanted if not self._files.has(one)]

    def _put(self, asker: Asker[int], request: PutPackage) -> int:
        if not _SHA256.fullmatch(request.sha256):
            raise ValueError(f"{request.sha256[:80]!r} is no SHA-256: a SHA-256 has 64 hex digits")
        if not 0 < request.size <= MOST_BYTES:
            raise ValueError(f"a package has at most {size(MOST_BYTES)}, not {size(request.size)}")
        have = self._files.length(request.sha256)
        if not request.data or have == request.size or request.offset != have:
            return have
        if len(request.data) > min(PART_BYTES, request.size - have):
            raise ValueError(f"a part of a package has at most {PART_BYTES} bytes")
        if not have:
            self._files.make_room(request.size, self._kept())
        try:
            self._files.add(request.sha256, have, request.data, request.size)
        except OSError as error:
            raise ValueError(f"the head cannot keep packages: {error.strerror}") from None
        return have + len(request.data)

    def fetched(self, prefix: bytes, message: FetchPackage) -> None:
        """Send a node the part of a package that it wants."""
        data, length = self._part(message.sha256, message.offset)
        answer: Any = PackagePart(message.sha256, message.offset, data, length)
        self._outbox.send(prefix, answer)

    def _read(self, asker: Asker[PackageRead], request: ReadPackage) -> PackageRead:
        return PackageRead(*self._part(request.sha256, request.offset))

    def _part(self, sha256: str, offset: int) -> tuple[bytes, int]:
        if offset < 0 or not _SHA256.fullmatch(sha256):
            return b"", -1
        return self._files.read(sha256, offset, PART_BYTES)
