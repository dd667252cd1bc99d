"""The machine of a node, which the node may share with other nodes of the cluster."""

from __future__ import annotations

import msgspec


class MachineShare(msgspec.Struct, frozen=True, array_like=True):
    """The machine of a node, the amounts of that machine, and the resources of the node whose
    amounts an administrator gave.
    """

    key: str
    """A key that is equal for all nodes of one machine. It names the machine's boot and, in a
    container, the container's processes.
    """
    amounts: dict[str, float]
    """The CPUs, GPUs and bytes of memory that a node offers if it is alone on the machine and no
    amounts were given.
    """
    given: tuple[str, ...] = ()
    """The resources of the node whose amounts an administrator gave."""
