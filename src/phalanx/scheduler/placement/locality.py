"""The node that is asked first: the node that holds most of the arguments' bytes."""

from __future__ import annotations

from collections.abc import Mapping


def best_holder(
    bytes_on: Mapping[str, int], local: str, bound_to: str | None = None, by_locality: bool = True
) -> str:
    """Return the node to ask first.

    `bound_to` is the node that an affinity or a selector by node id names; this node comes before
    all others. `by_locality` is on for the default strategy only. `bytes_on` has the bytes of
    arguments that each node holds. Among equals the local node wins, then the lowest id. If no node
    holds any bytes, the local node is returned.
    """
    if bound_to is not None:
        return bound_to
    held = {node: size for node, size in bytes_on.items() if size > 0} if by_locality else {}
    if not held:
        return local
    return min(held, key=lambda node: (-held[node], node != local, node))
