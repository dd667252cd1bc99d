"""A value that a program keeps at the head."""

from __future__ import annotations

import msgspec


class KeptValue(msgspec.Struct, frozen=True, array_like=True):
    """A value that a program keeps at the head, with its namespace and key."""

    namespace: bytes
    key: bytes
    value: bytes
