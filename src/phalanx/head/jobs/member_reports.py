"""Reports of nodes about the members of jobs, about runs and about steps."""

from __future__ import annotations

from typing import Any, Protocol

from phalanx.head.accounting.records import AttemptRecords
from phalanx.head.accounting.steps import StepUsage
from phalanx.head.gangs.binder import GangBinder
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.gang_registry import GangRegistry
from phalanx.head.gangs.member_states import HELD
from phalanx.head.jobs import events as ev
from phalanx.head.jobs.array_runs import ArrayRuns
from phalanx.head.jobs.job_rows import JobRows
from phalanx.head.jobs.lifecycle import JobTable
from phalanx.head.jobs.preparing import PreparedMembers
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord
from phalanx.protocol.bundle_messages import (
    MemberNews,
    MemberPrepares,
    MemberUsed,
    RunNews,
    StepEnded,
)


class ReportedJobs(Protocol):
    """The methods that MemberReports calls on the object with all jobs (JobGangs)."""

    def handle(self, event: ev.Event) -> None:
        """Handle an event, and run the actions that it causes."""
        ...

    def work_off(self) -> None:
        """Run the actions that effects have requested."""
        ...

    def wall(self) -> float:
        """Return the wall-clock time in seconds since the epoch."""
        ...


class MemberReports:
    """Turns reports of nodes into events of jobs, and into records of usage."""

    def __init__(
        self,
        jobs: ReportedJobs,
        table: JobTable,
        *,
        registry: GangRegistry,
        reservations: GangBinder,
        rows: JobRows,
        runs: ArrayRuns,
        prepared: PreparedMembers,
        records: AttemptRecords,
        steps: StepUsage,
    ) -> None:
        self._jobs = jobs
        self._table = table
        self._registry = registry
        self._reservations = reservations
        self._rows = rows
        self._runs = runs
        self._prepared = prepared
        self._records = records
        self._steps = steps

    def handle(
        self,
        node_id: str,
        message: MemberNews | MemberPrepares | MemberUsed | RunNews | StepEnded,
    ) -> None:
        """Handle a node's report."""
        match message:
            case MemberNews():
                self._member_news(node_id, message)
            case MemberPrepares():
                self._member_prepares(node_id, message)
            case MemberUsed():
                self._member_used(message)
            case RunNews():
                self._runs.news(message, node_id)
                self._jobs.work_off()
            case StepEnded():
                self._steps.ended(message, self._jobs.wall())

    def _member_prepares(self, node_id: str, message: MemberPrepares) -> None:
        """Handle a node's report that it prepares a member's environment, or has prepared it."""
        gang = self._registry.gangs.get(message.group)
        if gang is None or not gang.job or gang.is_removed or message.index >= len(gang.members):
            return
        place, job = gang.members[message.index], self._table.get(gang.job)
        if job is None or (place.node, place.attempt) != (node_id, message.attempt):
            return
        group, number = place.of_group, place.index
        self._rows.know_log(gang.job, f"{group}-{number}", (node_id, message.log))
        if message.is_ready:
            self._prepared.ready(message)
        self._jobs.handle(
            ev.MemberPrepares(
                job=gang.job, group=group, index=number, attempt=place.start, node=node_id
            )
        )

    def _member_news(self, node_id: str, message: MemberNews) -> None:
        """Handle a node's report that a member runs or has ended."""
        gang = self._registry.gangs.get(message.group)
        if gang is None or not gang.job or gang.is_removed or message.index >= len(gang.members):
            return  # another job may have this name now, or the job may have fewer members
        place = gang.members[message.index]
        if place.node != node_id:
            return  # the member got another place while this node was away
        self._runs.shown(gang, message.attempt)
        job = self._table.get(gang.job)
        if place.attempt != message.attempt or (job is None and self._runs.keeps(gang)):
            return
        group, number = place.of_group, place.index
        about: dict[str, Any] = {
            "job": gang.job, "group": group, "index": number, "attempt": place.start,
        }  # fmt: skip
        if message.log:
            self._rows.know_log(gang.job, f"{group}-{number}", (node_id, message.log))
        if message.code is None:
            self._jobs.handle(ev.MemberRan(**about, node=node_id, ran_s=message.ran_s))
            return
        if message.is_nodes_fault:
            if place.state == HELD:  # otherwise the member is already giving up its place
                self._reservations.refused_by_node(gang, message.index, message.reason)
                self._jobs.work_off()
            return
        self._steps.member_over(
            message.group, message.index, message.attempt, "", self._jobs.wall()
        )
        if job is not None:
            index, code, reason, used = message.index, message.code, message.reason, message.used
            self._records.ended(
                gang, index, job, code=code, signal=message.signal, reason=reason, used=used,
                now=self._jobs.wall(),
            )  # fmt: skip
        about |= {"reason": message.reason, "signal": message.signal}
        about |= {
            "is_parent_killed": message.is_parent_killed,
            "is_unprepared": message.is_unprepared,
        }
        keeps_place = self._keeps_place(gang, job, message)
        self._jobs.handle(ev.MemberExited(**about, exit_code=message.code))
        if keeps_place:
            return
        if (
            place.state == HELD and place.attempt == message.attempt
        ):  # otherwise the member has started again
            self._reservations.end(gang, [message.index])

    def _keeps_place(self, gang: Gang, job: JobRecord | None, message: MemberNews) -> bool:
        """Whether an array keeps the place of a task that has ended. The decision is stored before
        the task's job is forgotten.
        """
        place = gang.members[message.index]
        if job is None or message.code or message.used is None or place.state != HELD:
            return False
        member = job.member(place.of_group, place.index)
        if member is not None and member.state in (st.PENDING, st.RUNNING):
            return self._runs.goes_on(gang, job, message.used.ran_s)
        # the task was to be ended, but the next task of the run has already begun
        return self._runs.keeps(gang)

    def _member_used(self, message: MemberUsed) -> None:
        """Record the usage of a member that lost its place."""
        gang = self._registry.gangs.get(message.group)
        if gang is not None and gang.job:
            self._records.used(gang, message.index, message.attempt, message.used)
