"""Lists the processes that run on a node now, for the page of the node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from phalanx.model.node_use import DRIVER, MEMBER, WORKER, ProcessOfNode
from phalanx.node.leases.machine import LeaseMachine
from phalanx.node.member import Member
from phalanx.node.process_history import ProcessRecord


def of_members(members: Iterable[Member], now: float) -> Iterator[ProcessOfNode]:
    """Yield a row for each member of a job. `now` is by the node's clock."""
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
        yield ProcessOfNode(
            kind=DRIVER if is_driver else WORKER,
            name="" if is_driver else _use_of(record.process, leases),
            pid=record.pid,
            age_s=max(wall - record.began, 0.0),
        )


def _use_of(process: bytes, leases: LeaseMachine) -> str:
    worker = leases.workers.get(process)
    lease = None if worker is None else leases.leases.get(worker.lease)
    if lease is None:
        return "idle"
    if lease.demand.actor:
        return f"actor {lease.demand.actor.hex()}"
    return "waits in get" if lease.is_blocked else "runs tasks"
