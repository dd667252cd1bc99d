"""Requests about packages: the uploaded directories and modules of jobs and drivers."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from phalanx.model.rights import Verb
from phalanx.protocol.requests.request import EVERYBODY, Effect, Request, Role


class PutPackage(Request[int]):
    """Upload a part of a package, and return how many bytes of the package the head has.

    The parts come in order, each with the number in the last answer as its `offset`. A request
    without `data` only asks for that number. The package is complete when the head has `size`
    bytes. The answer is -1 if the head takes no packages. Raises ValueError for a package that is
    too large, and for content that does not have this SHA-256.
    """

    kind: ClassVar[int] = 118
    verb: ClassVar[Verb] = Verb.SUBMIT
    effect: ClassVar[Effect] = Effect.ADDS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    sha256: str
    size: int
    offset: int = 0
    data: bytes = b""


class PackageRead(msgspec.Struct, array_like=True):
    """A part of a package of `size` bytes. The size is -1 if the head does not have the package."""

    data: bytes
    size: int


class ReadPackage(Request[PackageRead]):
    """Read a part of a package from `offset` on."""

    kind: ClassVar[int] = 98
    verb: ClassVar[Verb] = Verb.SUBMIT
    effect: ClassVar[Effect] = Effect.READS
    asked_by: ClassVar[tuple[Role, ...]] = EVERYBODY

    sha256: str
    offset: int = 0
