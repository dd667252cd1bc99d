"""Options that take an amount of memory, such as `4Gi`, `512MiB` or `1.5 GiB`."""

from __future__ import annotations

from phalanx.manifests.sizes import read_size


def memory_bytes(given: str | float) -> int:
    """Return the whole bytes that an option's value means; raises ValueError for any other text."""
    return int(read_size(given))
