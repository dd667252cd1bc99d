"""The head of a simulated lab: the production head with storage that writes immediately."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from phalanx.head.gangs.kept_promises import TABLE
from phalanx.head.head import Head
from phalanx.head.jobs.probing import NoAnswers
from phalanx.head.nodes.liveness import HealthLimits
from phalanx.head.outbox import Outbox
from phalanx.head.setup import HeadSetup, HeadShell
from phalanx.head.state_store import StateStore, read_state
from phalanx.model.attempts import AttemptRow
from phalanx.model.steps import LedgerRow
from phalanx.observe.accounting.questions import AttemptPage, AttemptQuery, UsageQuery, UsageRow
from phalanx.protocol.requests.request import Asker, Request, Role, encode_request, read_result
from phalanx.protocol.wire_errors import WireError
from phalanx.scheduler.forecast.promised import PromiseRow
from phalanx.storage.memory import MemoryDisk, MemoryMark, MemoryShard
from phalanx.storage.shard import Batch
from phalanx.storage.storage import Storage
from phalanx_research.chaos.hosts import raise_defect
from phalanx_research.chaos.kernel import Kernel
from phalanx_research.lab.machine import Machine, Wire
from phalanx_research.virtual_time import VirtualClock

MIDNIGHT = 1_800_835_200.0
"""The beginning of the day, in seconds since the epoch: a Monday."""
TICK_S = 5.0
_SOON_S = 0.001
R = TypeVar("R")


class History:
    """A history in memory. It keeps records, and does not answer queries, because the simulation
    makes none.
    """

    def __init__(self) -> None:
        self.rows: dict[bytes, AttemptRow] = {}

    def add(self, rows: Sequence[LedgerRow], kept: Callable[[], None]) -> None:
        """Add records to the history."""
        for row in rows:
            if isinstance(row, AttemptRow):
                self.rows[row.key] = row
        kept()

    def attempts(
        self, query: AttemptQuery, answered: Callable[[AttemptPage | Exception], None]
    ) -> None:
        """Do nothing, since attempts are never queried here."""

    def usage(
        self, query: UsageQuery, answered: Callable[[list[UsageRow] | Exception], None]
    ) -> None:
        """Do nothing, since usage is never queried here."""


class _Journal:
    """A journal that writes every change immediately."""

    shortage = ""
    is_stalled = False

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def record(self, changes: Batch, durable: Callable[[], None] | None = None) -> None:
        """Write changes, and confirm them immediately."""
        if changes:
            self._storage.apply(changes)
        if durable is not None:
            durable()

    def flush(self) -> None:
        """Do nothing: every change is already written."""


class Store:
    """The parts of a head that survive its process: the tables and the history."""

    def __init__(self) -> None:
        self.disk = MemoryDisk("lab")
        self.mark = MemoryMark()
        self.history = History()

    def promises(self) -> dict[str, float]:
        """Return the start that was promised to each podgroup, in seconds since the epoch."""
        rows = self.disk.tables.get(TABLE, {}).values()
        found = [msgspec.msgpack.decode(row, type=PromiseRow) for row in rows]
        return {row.podgroup: row.at_s for row in found}


class LabHead:
    """One process of the head."""

    def __init__(self, kernel: Kernel, store: Store, machines: Sequence[Machine]) -> None:
        self._kernel = kernel
        self._machines = {machine.prefix: machine for machine in machines}
        self._is_gone = False
        self._round_at = float("inf")
        storage = Storage([MemoryShard(store.disk)], marks=[store.mark])
        stored = read_state(storage)
        state_store = StateStore(_Journal(storage))
        self.control = Head(
            Outbox(self._send, state_store),
            state_store,
            HeadShell(
                clock=VirtualClock(kernel, MIDNIGHT),
                rng=random.Random(f"{kernel.seed} head {storage.epoch}"),
                prober=NoAnswers(),
                report_defect=raise_defect,
                ledger=store.history,
            ),
            stored=stored,
            setup=HeadSetup(cluster=storage.cluster, limits=HealthLimits(period_s=1e9, misses=1)),
        )
        for machine in machines:
            machine.join(Wire(partial(self._hear_soon, machine)))
        kernel.after(TICK_S, self._tick)
        self._round_by(kernel.now)

    def die(self) -> None:
        """End the process. Messages on their way to it are lost."""
        self._is_gone = True
        for machine in self._machines.values():
            machine.head_gone()

    def ask(self, request: Request[R]) -> R:
        """Return the answer to a request, or raise its error."""
        answers: list[tuple[msgspec.Raw, WireError | None]] = []
        asker = Asker[R](Role.VISITOR, b"", lambda result, error: answers.append((result, error)))
        handlers = self.control.answering.handlers_of(request.kind)
        handlers.answer(request.kind, encode_request(request), asker)
        self._round_by(self._kernel.now)
        return read_result(request, *answers[0])

    # ---- time and messages -------------------------------------------------------------------

    def _tick(self) -> None:
        if self._is_gone:
            return
        self._kernel.after(TICK_S, self._tick)
        for machine in self._machines.values():
            machine.tick()
        self.control.on_tick(self._kernel.now)
        self._round_by(self._kernel.now)

    def _round_by(self, at: float) -> None:
        """Handle all events until `at` in one round."""
        if at < self._round_at:
            self._round_at = at
            self._kernel.at(at, self._round)

    def _round(self) -> None:
        if self._is_gone or self._kernel.now < self._round_at:
            return
        self._round_at = float("inf")
        wake_at = self.control.on_round(self._kernel.now)
        if wake_at < float("inf"):
            self._round_by(max(wake_at, self._kernel.now + _SOON_S))

    def _send(self, prefix: bytes, message: Any) -> None:
        machine = self._machines[prefix]
        self._kernel.after(0.0, lambda: None if self._is_gone else machine.hears(message))

    def _hear_soon(self, machine: Machine, message: Any) -> None:
        self._kernel.after(0.0, partial(self._hear, machine, message))

    def _hear(self, machine: Machine, message: Any) -> None:
        if not self._is_gone:
            self.control.on_message(machine.prefix, message)
            self._round_by(self._kernel.now)
