"""The nodes that Slurm's options name: hosts by name or address, and the size of a whole node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from phalanx.adapters.slurm.commands.hostlists import expanded, name_of
from phalanx.adapters.slurm.commands.usage import address, refuse
from phalanx.adapters.slurm.options import OptionError
from phalanx.cli.reach import ask
from phalanx.model.rows.cluster import NodeInfo, current_nodes

_CHOICES = ("nodelist", "exclude", "exclusive")


class AskedNodes:
    """Options about nodes, resolved with the cluster's nodes. The cluster is asked only if such
    options are given.
    """

    def __init__(self, asked: Mapping[str, str]) -> None:
        """Raises OptionError for an unknown host."""
        is_needed = any(option in asked for option in _CHOICES)
        nodes = [n for n in _nodes() if n.state != "DEAD"] if is_needed else []
        self.hosts = {
            name: node.labels.get(_HOSTNAME, node.hostname)
            for node in nodes
            for name in _names([node])
        }
        """The host name of each node, by every name and address of the node."""
        self.node_cpus = _usual_cpus(nodes)
        """The number of CPUs that most nodes have."""
        self.asked = dict(asked)
        """The options, with lists of hosts expanded."""
        for option in ("nodelist", "exclude"):
            if option in asked:
                names = expanded(asked[option])
                _check(option, names, nodes)
                self.asked[option] = ",".join(names)


_HOSTNAME = "kubernetes.io/hostname"


def _nodes() -> list[NodeInfo]:
    from phalanx.protocol.requests.cluster import GetStatus  # most jobs name no node

    return ask(address(), GetStatus()).nodes


def _check(option: str, names: Sequence[str], nodes: Sequence[NodeInfo]) -> None:
    there = _names(nodes)
    for name in names:
        if name not in there:
            raise OptionError(f"--{option}: Invalid node name specified: {name}")


def _names(nodes: Sequence[NodeInfo]) -> set[str]:
    return {name for n in nodes for name in (n.host, n.hostname, n.name, n.labels.get(_HOSTNAME))
            if name}  # fmt: skip


def _usual_cpus(nodes: Sequence[NodeInfo]) -> int:
    counts = Counter(int(node.total.get("CPU", 0.0)) for node in nodes)
    del counts[0]
    return max(counts, key=lambda cpus: (counts[cpus], cpus), default=0)


def hosts_named(command: str, written: str) -> set[str]:
    """Return the names by which listings show these hosts. `written` may have any name or address
    of each host.

    Ends the command for an unknown host.
    """
    nodes = current_nodes(_nodes())
    found: set[str] = set()
    for name in expanded(written):
        mine = {name_of(node) for node in nodes if name in _names([node])}
        if not mine:
            refuse(command, f"Invalid node name {name}")
        found |= mine
    return found
