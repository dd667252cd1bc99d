"""Records the beginnings and ends of a node's processes, for listings, metrics, and notes about
crashes.
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.model.ids import worker_id_of
from phalanx.node.crash_notes import CrashNotes
from phalanx.node.metrics import NodeCounts
from phalanx.node.notes import Note
from phalanx.node.process_history import ProcessHistory
from phalanx.node.worker_processes import CRASHED, OUT_OF_MEMORY
from phalanx.observe.log_lines import WARNING
from phalanx.protocol.node_messages import PARENT


class ProcessRecords:
    """Records the beginnings and ends of processes."""

    def __init__(
        self,
        history: ProcessHistory,
        counts: NodeCounts,
        *,
        note: Note,
        clock: Callable[[], float],
    ) -> None:
        self._history = history
        self._counts = counts
        self._note = note
        self._crashes = CrashNotes(note, clock)

    def tick(self, now: float) -> None:
        """Write the notes about crashes that are due."""
        self._crashes.tick(now)

    def worker_began(self, worker: bytes, pid: int) -> None:
        """Record a worker that has introduced itself."""
        self._history.began(worker, "WORKER", pid)
        self._counts.meter.add("phalanx_worker_starts_total", "started")

    def start_failed(self, reason: str, is_news: bool) -> None:
        """Record a worker that could not be started. `is_news`: whether starts worked before."""
        self._counts.meter.add("phalanx_worker_starts_total", "failed")
        if is_news:
            self._note(f"a worker is needed, but {reason}", level=WARNING)

    def worker_ended(self, worker: bytes, reason: str, kind: str) -> None:
        """Record the end of a worker. `kind` is crashed, oom, exited, killed, preempted or parent
        (its parent process was killed).
        """
        self._history.ended(worker, kind.upper(), reason)
        self._counts.meter.add("phalanx_worker_deaths_total", kind)
        if kind in (CRASHED, OUT_OF_MEMORY, PARENT):
            self._crashes.crashed(worker_id_of(worker), worker[12:].hex(), reason)

    def driver_ended(self, driver: bytes) -> None:
        """Record the end of a driver."""
        self._history.ended(driver, "EXITED", "its connection to the node has ended")
