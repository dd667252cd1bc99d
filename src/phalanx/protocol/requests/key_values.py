"""Requests to the head about the values that programs keep at the head under keys."""

from __future__ import annotations

from typing import ClassVar

from phalanx.model.rights import Verb
from phalanx.protocol.requests.request import Effect, Request


class PutValue(Request[bool]):
    """Keep a value under a key of a namespace. Returns whether the key had a value.

    With `overwrite`, the value replaces an existing one. Raises ValueError if the value is too
    large, or if all values together would be too large.
    """

    kind: ClassVar[int] = 110
    verb: ClassVar[Verb] = Verb.USE
    effect: ClassVar[Effect] = Effect.ADDS

    namespace: bytes
    key: bytes
    value: bytes
    overwrite: bool


class GetValue(Request[bytes | None]):
    """Return the value of a key; None if the key has no value."""

    kind: ClassVar[int] = 111
    verb: ClassVar[Verb] = Verb.USE
    effect: ClassVar[Effect] = Effect.READS

    namespace: bytes
    key: bytes


class DeleteValues(Request[int]):
    """Delete the value of a key, or of all keys that begin with it. Returns the number of deleted
    values.
    """

    kind: ClassVar[int] = 112
    verb: ClassVar[Verb] = Verb.USE

    namespace: bytes
    key: bytes
    is_prefix: bool


class ListKeys(Request[list[bytes]]):
    """List the keys of a namespace that begin with this prefix, in no particular order."""

    kind: ClassVar[int] = 113
    verb: ClassVar[Verb] = Verb.USE
    effect: ClassVar[Effect] = Effect.READS

    namespace: bytes
    prefix: bytes
