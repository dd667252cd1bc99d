"""Releases everything that a driver or worker of this node had, when the process ends."""

from __future__ import annotations

from collections.abc import Callable

from phalanx.node.head_link import HeadLink
from phalanx.node.leases.machine import LeaseMachine
from phalanx.node.leases.remote import BorrowedLeases
from phalanx.node.metrics import NodeCounts
from phalanx.node.no_other_nodes import Spills
from phalanx.node.node_links import NodeLinks
from phalanx.node.object_store import ObjectStore
from phalanx.protocol.cluster_messages import ProcessEnded


class ProcessEnds:
    """Reports the end of a process to every part of the node from which the process may have asked
    something.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        head: HeadLink,
        *,
        links: NodeLinks,
        leases: LeaseMachine,
        spilling: Spills,
        borrowed: BorrowedLeases,
        store: ObjectStore,
        counts: NodeCounts,
    ) -> None:
        self._clock = clock
        self._head = head
        self._links = links
        self._leases = leases
        self._spilling = spilling
        self._borrowed = borrowed
        self._store = store
        self._counts = counts

    def ended(self, process: bytes, is_driver: bool = False) -> None:
        """Release everything that belongs to a process that has ended or is about to end."""
        self._leases.owner_gone(process, self._clock())
        self._spilling.owner_gone(process)
        self._borrowed.owner_gone(process)
        for prefix in self._links.asked():
            self._links.send(prefix, ProcessEnded(process, is_driver))
        self._head.notify(ProcessEnded(process, is_driver))
        self._store.process_gone(process)
        self._counts.process_gone(process)

    def worker_gone(self, worker: bytes, readers: set[bytes]) -> None:
        """Drop the objects of an ended worker once the processes `readers` have read all messages
        that the worker sent them.
        """
        self._store.worker_gone(worker, readers)
