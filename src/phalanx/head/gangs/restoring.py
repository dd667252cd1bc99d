"""Restores queues, gangs and jobs from the rows that an earlier head wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

import msgspec

from phalanx.head.clock import WatchedClock
from phalanx.head.events.recorders import Recorders
from phalanx.head.gangs.binder import GangBinder
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.gang_registry import GangRegistry, one_of_each_name
from phalanx.head.gangs.kept_promises import TABLE as PROMISES
from phalanx.head.gangs.kept_promises import KeptPromises
from phalanx.head.gangs.network_domains import Domains
from phalanx.head.gangs.outside_work import OutsideWork
from phalanx.head.gangs.plan_applier import PlanApplier
from phalanx.head.gangs.rendezvous import Rendezvous
from phalanx.head.gangs.rules import Rules, RulesRow
from phalanx.head.internal_errors import InternalErrors
from phalanx.head.jobs.array_runs import TABLE as RUNS
from phalanx.head.jobs.array_runs import Run
from phalanx.head.jobs.array_tasks import ArrayTaskRows
from phalanx.head.jobs.job_gangs import JobGangs
from phalanx.head.jobs.job_rows import JobRow
from phalanx.head.jobs.priorities import Priorities
from phalanx.head.jobs.requests import JobRequests
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.queues.control import Queues
from phalanx.head.queues.table import QueueRecord
from phalanx.head.reservations.control import ReservationControl
from phalanx.head.reservations.licenses import LicenseRow
from phalanx.head.reservations.record import ReservationRecord
from phalanx.head.shares.usage_ledger import UsageLedger, UsageRow
from phalanx.manifests.hypernodes import HyperNode
from phalanx.model.jobs.records import CronRecord, FlowRecord, JobRecord
from phalanx.model.jobs.spec import JobSpec, PriorityClass

T = TypeVar("T")


class Restorable(Protocol):
    """The parts of a gang scheduler that keep rows, or follow gangs."""

    clock: WatchedClock
    internal_errors: InternalErrors
    nodes: NodeDirectory
    registry: GangRegistry
    queues: Queues
    domains: Domains
    outside_work: OutsideWork
    calendar: ReservationControl
    rules: Rules
    books: UsageLedger
    recorders: Recorders
    rendezvous: Rendezvous
    reservations: GangBinder
    applier: PlanApplier
    priorities: Priorities
    jobs: JobGangs
    job_requests: JobRequests
    promises: KeptPromises


def restore(
    parts: Restorable, stored: Mapping[str, list[bytes]], job_changed: Callable[[JobRecord], None]
) -> None:
    """Restore all parts from the stored rows, which are grouped by table. Each part uses the parts
    that are restored before it.

    `job_changed` is called for each job. This is done before flows and cron jobs are restored,
    because they may change jobs.
    """

    def rows(table: str, of: type[T]) -> list[T]:
        return [msgspec.msgpack.decode(row, type=of) for row in stored[table]]

    parts.rules.load(rows("rules", RulesRow))
    parts.queues.table.restore(rows("queues", QueueRecord))
    parts.books.load(rows("shares", UsageRow))
    job_rows = rows("batch_jobs", JobRow)
    parts.jobs.load(job_rows, rows("elements", ArrayTaskRows))
    parts.calendar.load(rows("reservations", ReservationRecord), rows("licenses", LicenseRow))
    parts.recorders.restore(row.record for row in job_rows)
    parts.domains.load(rows("hypernodes", HyperNode))
    parts.priorities.load(rows("priorities", PriorityClass))
    gangs, twins = one_of_each_name(rows("gangs", Gang))
    for gang in twins:
        parts.registry.forget(gang)
    for gang in gangs:
        with parts.internal_errors.kept_apart("gang", gang.name):
            _restore_gang(parts, gang)
    parts.jobs.restore(rows(RUNS, Run))
    for job in parts.jobs.table.all():
        job_changed(job)
    flows = sorted(rows("flows", FlowRecord), key=lambda flow: flow.submitted)
    parts.job_requests.flows.restore(rows("templates", JobSpec), flows)
    parts.job_requests.crons.restore(rows("crons", CronRecord))
    parts.jobs.steps.restore(stored["steps"], parts.registry.gangs, parts.clock.wall())
    parts.jobs.records.restore(stored["attempts"])
    parts.promises.load(stored[PROMISES])


def _restore_gang(parts: Restorable, gang: Gang) -> None:
    parts.rendezvous.keep_ports(gang)
    parts.outside_work.gang_known(gang)
    parts.books.gang_known(gang)
    parts.applier.gang_known(gang)
    parts.jobs.know_gang(gang)
    parts.reservations.restore(gang, parts.nodes.is_alive)
