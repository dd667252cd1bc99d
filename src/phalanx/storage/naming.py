"""What a store is called where people read it."""

from __future__ import annotations

from collections.abc import Sequence


def storage_name(addresses: Sequence[str]) -> str:
    """The addresses of a store's shards, without passwords."""
    return ", ".join(a.rsplit("@", 1)[-1] if "@" in a else a for a in addresses)
