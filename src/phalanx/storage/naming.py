"""The name of a store for display."""

from __future__ import annotations

from collections.abc import Sequence


def storage_name(addresses: Sequence[str]) -> str:
    """Return the addresses of a store's shards, without passwords."""
    return ", ".join(a.rsplit("@", 1)[-1] if "@" in a else a for a in addresses)
