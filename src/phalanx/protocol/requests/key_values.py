"""What the head answers about bytes that programs keep there by key."""

from __future__ import annotations

from typing import ClassVar

from phalanx.protocol.requests.request import Effect, Request


class PutValue(Request[bool]):
    """Keep a value under a key of a namespace. Answered with whether one was there; it stays unless
    `overwrite`. Raises ValueError above the limits of a value and of all together."""

    kind: ClassVar[int] = 110
    effect: ClassVar[Effect] = Effect.ADDS

    namespace: bytes
    key: bytes
    value: bytes
    overwrite: bool


class GetValue(Request[bytes | None]):
    """The value of a key; None where there is none."""

    kind: ClassVar[int] = 111
    effect: ClassVar[Effect] = Effect.READS

    namespace: bytes
    key: bytes


class DeleteValues(Request[int]):
    """Forget the value of a key, or of all keys that begin so. Answered with how many went."""

    kind: ClassVar[int] = 112

    namespace: bytes
    key: bytes
    is_prefix: bool


class ListKeys(Request[list[bytes]]):
    """The keys of a namespace that begin so, in no order."""

    kind: ClassVar[int] = 113
    effect: ClassVar[Effect] = Effect.READS

    namespace: bytes
    prefix: bytes
