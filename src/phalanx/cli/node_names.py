"""Display names of nodes, and the search for the node that a user names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, NamedTuple

from phalanx.cli.options import Option
from phalanx.cli.reach import NOT_FOUND, USAGE, ask, fail
from phalanx.model.lifecycle import DEAD
from phalanx.model.rows.cluster import NodeInfo
from phalanx.protocol.requests.cluster import GetStatus

SHORT = 12
"""The number of digits shown of a node's id. Commands accept any unique beginning of an id."""
Ids = Annotated[bool, Option("--ids", help="Show nodes by their ids instead of their names.")]


class NodeNames:
    """The display names of a cluster's nodes."""

    def __init__(self, nodes: Iterable[NodeInfo], with_ids: bool = False) -> None:
        """`with_ids`: show whole ids instead of names. Otherwise a node is shown by its name or, if
        several nodes share that name, by the beginning of its id.
        """
        rows = list(nodes)
        counts = Counter(_name(row) for row in rows if row.state != DEAD)
        self._names: Mapping[str, str] = (
            {}
            if with_ids
            else {row.node_id: _name(row) for row in rows if _name(row) and counts[_name(row)] <= 1}
        )
        self._with_ids = with_ids

    @property
    def known(self) -> Mapping[str, str]:
        """The names by id, without those that several nodes share."""
        return self._names

    def __call__(self, node_id: str) -> str:
        short = node_id if self._with_ids else node_id[:SHORT]
        return self._names.get(node_id, short)


def _name(row: NodeInfo) -> str:
    return row.name or row.hostname


def names_of(
    address: str | None, node_ids: Iterable[str], with_ids: bool, *, with_programs: bool = False
) -> NodeNames:
    """Return the display names of nodes. The cluster is asked only if `node_ids` is not empty.
    `with_programs`: whether the nodes may belong to a program's own session.
    """
    if with_ids or not any(node_ids):
        return NodeNames((), with_ids)
    return NodeNames(ask(address, GetStatus(), with_programs=with_programs).nodes)


class FoundNode(NamedTuple):
    """A node that a user has named."""

    node_id: str
    name: str
    """Its display name, as in `phalanx nodes`."""


def find_node(address: str | None, beginning: str, with_programs: bool = False) -> str:
    """Return the id of the node that `find_named` finds."""
    return find_named(address, beginning, with_programs).node_id


def find_named(address: str | None, beginning: str, with_programs: bool = False) -> FoundNode:
    """Return the only living node that has the name `beginning`, or whose id begins with
    it. Ids are tried first. A dead node is found only by its full id. Ends the command unless
    exactly one node matches. `with_programs`: whether the address may be that of a program without
    a cluster.
    """
    status = ask(address, GetStatus(), with_programs=with_programs)
    known = {row.node_id: row for row in status.nodes}
    shown = NodeNames(status.nodes)
    if beginning in known:
        return FoundNode(beginning, shown(beginning))
    living = [row for row in known.values() if row.state != DEAD]
    alive = [row.node_id for row in living if beginning and row.node_id.startswith(beginning)]
    alive = alive or [row.node_id for row in living if beginning in (row.name, row.hostname)]
    if not alive:
        from phalanx.model.nearest import nearest

        near = nearest(beginning, {_name(row) for row in living}) or ":"
        fail(
            f"No living node has the name {beginning!r}, or an id that begins with it{near} "
            "`phalanx nodes` lists the nodes.",
            NOT_FOUND,
        )
    if len(alive) > 1:
        fail(f"{beginning!r} matches {len(alive)} nodes: {', '.join(alive)}.", USAGE)
    return FoundNode(alive[0], shown(alive[0]))
