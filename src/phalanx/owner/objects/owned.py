"""Composes the machines of one owner's objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx.objects.reference import ObjectRef
from phalanx.owner.objects.inputs import Inputs
from phalanx.owner.objects.reconstruction import Reconstruction
from phalanx.owner.objects.references import References
from phalanx.owner.objects.results import Results
from phalanx.owner.objects.streams import Streams
from phalanx.owner.objects.table import ObjectTable
from phalanx.owner.objects.unread import UnreadFailures
from phalanx.owner.peers.connections import Peers
from phalanx.owner.shell import OwnerShell
from phalanx.owner.work import PendingWork
from phalanx.protocol.messages import Value


class OwnedObjects:
    """The machines of objects. Tasks and calls take arguments from them, and store results in
    them.
    """

    def __init__(
        self,
        me: bytes,
        shell: OwnerShell,
        *,
        peers: Peers,
        references: References,
        on_stored: Callable[[ObjectRef[Any], Value, bytes], None],
        run_again: Callable[[PendingWork], None],
    ) -> None:
        """`on_stored(ref, value, writer)` is called for each object of this process whose value was
        stored. `run_again` submits work that has run before.
        """
        self.table = table = ObjectTable(
            me, peers, shell.outbox, shell.node, shell.files, references, on_stored
        )
        self.reconstruction = table.recovery = Reconstruction(me, references, table, run_again)
        self.streams = Streams(me, table, self.reconstruction, shell.outbox, shell.pack)
        self.unread = UnreadFailures(shell.report)
        self.results = Results(table, self.reconstruction, self.streams, self.unread)
        self.inputs = Inputs(me, table)
