"""A value that a program keeps at the head."""

from __future__ import annotations

import msgspec


class KeptValue(msgspec.Struct, frozen=True, array_like=True):
    """One entry of the table of `head.key_values`."""

    namespace: bytes
    key: bytes
    value: bytes
