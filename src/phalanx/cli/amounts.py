"""Options that take an amount of memory, such as `4Gi`, `512MiB` or `1.5 GiB`."""

from __future__ import annotations

from phalanx.manifests.sizes import read_size


def memory_bytes(given: str | float) -> int:
    """Return an option's value in bytes. Raises ValueError for a text that is not an amount."""
    return int(read_size(given))
