"""Packages of jobs on this node: fetched from the head part by part, and kept for later jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from phalanx.node.head_link import HeadLink
from phalanx.protocol.bundle_messages import FetchPackage, PackagePart

Done = Callable[[str], None]
"""Called with "" when packages are here, or with the reason why they are not."""


class PackageStore(Protocol):
    """The files of packages on a node."""

    def has(self, sha256: str) -> bool:
        """Whether a package is here."""
        ...

    def add(self, sha256: str, offset: int, data: bytes, total: int) -> None:
        """Append a part. Raises OSError, and ValueError if the content is wrong."""
        ...

    def make_room(self, wanted: int, kept: Collection[str]) -> None:
        """Delete the packages that were used longest ago. Raises ValueError if that is not
        enough.
        """
        ...


class Packages:
    """Fetches each package once, for all members that wait for it."""

    def __init__(self, files: PackageStore, head: HeadLink) -> None:
        self._files = files
        self._head = head
        self._waiting: list[tuple[set[str], Done]] = []
        self._offsets: dict[str, int] = {}
        """The bytes that have come of each package that is being fetched."""

    def want(self, wanted: Sequence[str], done: Done) -> None:
        """Call `done` as soon as all these packages are here or one of them cannot be fetched."""
        missing = {one for one in wanted if not self._files.has(one)}
        if not missing:
            done("")
            return
        self._waiting.append((missing, done))
        for one in sorted(missing - self._offsets.keys()):
            self._fetch(one, 0)

    def _fetch(self, sha256: str, offset: int) -> None:
        self._offsets[sha256] = offset
        self._head.notify(FetchPackage(sha256, offset))

    def again(self) -> None:
        """Repeat the questions to the head, because the last questions or their answers may be
        lost.
        """
        for sha256, offset in self._offsets.items():
            self._head.notify(FetchPackage(sha256, offset))

    def part(self, message: PackagePart) -> None:
        """Take a part of a package."""
        sha256, offset = message.sha256, self._offsets.get(message.sha256)
        if offset is None or offset != message.offset:
            return  # a part that comes twice
        why = ""
        if message.size < 0 or not message.data:
            why = "the head does not have the package any more; submit the job again"
        else:
            try:
                if not offset:
                    self._files.make_room(message.size, self._offsets.keys())
                self._files.add(sha256, offset, message.data, message.size)
            except OSError as error:
                why = f"the package could not be kept: {error.strerror}"
            except ValueError as error:
                why = str(error)
        if not why and offset + len(message.data) < message.size:
            self._fetch(sha256, offset + len(message.data))
            return
        del self._offsets[sha256]
        self._end(sha256, why)

    def _end(self, sha256: str, why: str) -> None:
        over = [one for one in self._waiting if sha256 in one[0]]
        for one in over:
            one[0].discard(sha256)
            if why or not one[0]:
                self._waiting.remove(one)
                one[1](why)
