"""Chooses the node that is asked first: the node that holds most bytes of the arguments."""

from __future__ import annotations

from collections.abc import Mapping


def best_holder(
    bytes_on: Mapping[str, int], local: str, bound_to: str | None = None, by_locality: bool = True
) -> str:
    """Return the node to ask first.

    `bound_to`: the node that an affinity or a selector by node id names; if it is given, it is
    returned. `bytes_on`: how many bytes of the arguments each node holds. These numbers count only
    with `by_locality`, which callers set for the default strategy alone. Among equal nodes, the
    local node comes first, then the node with the lowest id. If no node holds any bytes, the local
    node is returned.
    """
    if bound_to is not None:
        return bound_to
    held = {node: size for node, size in bytes_on.items() if size > 0} if by_locality else {}
    if not held:
        return local
    return min(held, key=lambda node: (-held[node], node != local, node))
