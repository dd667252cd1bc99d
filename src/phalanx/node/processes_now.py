"""Lists the processes that run on a node now, for the page of the node, and measures them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from phalanx.model.node_use import DRIVER, MEMBER, WORKER, ProcessOfNode
from phalanx.node.leases.machine import LeaseMachine
from phalanx.node.member import Member
from phalanx.node.process_history import ProcessRecord
from phalanx.node.usage import Processes, UsageMeter


def of_members(members: Iterable[Member], now: float) -> Iterator[ProcessOfNode]:
    """Yield a row for each member of a job. `now` is on the node's clock."""
    for member in members:
        order, usage = member.order, member.usage
        yield ProcessOfNode(
            kind=MEMBER,
            job=order.job,
            name=order.name,
            pid=next(iter(usage.pids), 0),
            age_s=max(now - member.began_at, 0.0),
            cpus=usage.last_cpus,
            memory=usage.last_memory,
        )


def of_programs(
    records: Iterable[ProcessRecord], leases: LeaseMachine, wall: float
) -> Iterator[ProcessOfNode]:
    """Yield a row for each driver and each worker. `wall` is in seconds since the epoch."""
    for record in records:
        is_driver = record.kind == "DRIVER"
        use, actor = ("", "") if is_driver else _use_of(record.process, leases)
        yield ProcessOfNode(
            kind=DRIVER if is_driver else WORKER,
            name=use,
            pid=record.pid,
            age_s=max(wall - record.began, 0.0),
            actor=actor,
        )


def _use_of(process: bytes, leases: LeaseMachine) -> tuple[str, str]:
    """Return what a worker is used for, and the id in hex of its actor."""
    worker = leases.workers.get(process)
    lease = None if worker is None else leases.leases.get(worker.lease)
    if lease is None:
        return "idle", ""
    if lease.demand.actor:
        return "actor", lease.demand.actor.hex()
    return "waits in get" if lease.is_blocked else "runs tasks", ""


class ProcessMeter:
    """Measures the usage of drivers and workers between one request and the next, so that nothing
    is measured while nobody asks.
    """

    def __init__(self, meter: UsageMeter) -> None:
        self._meter = meter
        self._asked_at: float | None = None
        """The time when the measurement under way began; None before the first one."""
        self._last: tuple[float, Processes] = (0.0, {})
        """The time and the result of the latest measurement."""
        self._before: tuple[float, Processes] = (0.0, {})
        """The time and the result of the measurement before the latest one."""

    def measured(self, rows: Collection[ProcessOfNode], now: float) -> list[ProcessOfNode]:
        """Return the rows with the usage that was measured lately, and begin the next measurement.
        Rows whose usage is known already are not changed.
        """
        found = self._meter.answer()
        if found is not None:
            self._before, self._last = self._last, (self._asked_at or now, found)
        if found is not None or self._asked_at is None:
            self._asked_at = now  # otherwise the measurement is still under way
        self._meter.ask([row.pid for row in rows if row.memory is None and row.pid])
        return [row if row.memory is not None else self._with_usage(row) for row in rows]

    def _with_usage(self, row: ProcessOfNode) -> ProcessOfNode:
        (at, last), (before_at, before) = self._last, self._before
        if row.pid not in last:
            return row
        cpu_s, memory = last[row.pid]
        cpus = None
        if row.pid in before and at > before_at:
            cpus = max(cpu_s - before[row.pid][0], 0.0) / (at - before_at)
        return msgspec.structs.replace(row, cpus=cpus, memory=float(memory))
