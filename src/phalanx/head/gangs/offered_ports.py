"""The ports that gangs may use on each node."""

from __future__ import annotations

import functools

from phalanx.head.nodes.directory import NodeDirectory
from phalanx.scheduler.devices.ports import Ports, common_ports, parse_ports

USUAL = Ports(((20_000, 32_000),))
"""The ports of nodes whose record names no ports. The ports are below the ports that operating
systems assign to clients (from 32,768 on Linux).
"""


class OfferedPorts:
    """The ports that each node offers: the ports in its record, or the usual ports."""

    def __init__(self, nodes: NodeDirectory) -> None:
        self._nodes = nodes
        self._everywhere: Ports | None = None

    def nodes_changed(self) -> None:
        self._everywhere = None

    def of(self, node_id: str) -> Ports:
        """Return the ports of a node; no ports if the node is gone."""
        record = self._nodes.get(node_id)
        return Ports() if record is None else ports_of(record.ports)

    def everywhere(self) -> Ports:
        """Return the ports that every node offers."""
        if self._everywhere is None:
            texts = dict.fromkeys(record.ports for record in self._nodes.living())
            self._everywhere = common_ports(map(ports_of, texts))
        return self._everywhere


@functools.cache
def ports_of(text: str) -> Ports:
    """Return the ports that the text in a node's record names; the usual ports for an empty
    text.
    """
    return parse_ports(text) if text else USUAL
