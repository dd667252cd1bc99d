"""The machine of a node, which the node may share with other nodes of the cluster."""

from __future__ import annotations

import msgspec


class MachineShare(msgspec.Struct, frozen=True, array_like=True):
    """The machine of a node, the amounts of that machine, and the resources of the node whose
    amounts an administrator gave.
    """

    key: str
    """A text that is equal for all nodes on one machine. Each container counts as a machine of its
    own. The text names the boot of the machine and the namespace of process ids.
    """
    amounts: dict[str, float]
    """The CPUs, GPUs and bytes of memory that a node offers if it is alone on the machine and no
    amounts were given.
    """
    given: tuple[str, ...] = ()
    """The resources of the node whose amounts an administrator gave."""
