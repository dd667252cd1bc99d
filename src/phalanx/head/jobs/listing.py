"""Lists, describes and explains jobs, flows and cron jobs."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from phalanx.errors import JobCommandError, JobNotFoundError
from phalanx.head.clock import Clock
from phalanx.head.gangs.explaining import Explanations
from phalanx.head.jobs import resting
from phalanx.head.jobs.array_task_requests import ArrayTaskRequests
from phalanx.head.jobs.columns import ColumnListing
from phalanx.head.jobs.crons import Crons
from phalanx.head.jobs.explaining import (
    explain_array_task,
    explain_cron,
    explain_flow,
    explain_held,
    explain_job,
)
from phalanx.head.jobs.flows import Flows
from phalanx.head.jobs.job_gangs import JobGangs
from phalanx.head.jobs.priorities import Priorities
from phalanx.head.jobs.rows import DEFECT, job_description, job_row, why_preparing
from phalanx.head.jobs.time_limits import HeldBack, why_held_back
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.queues.control import Queues
from phalanx.head.rights.owners import sees
from phalanx.model.ids import JobId
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord
from phalanx.model.nearest import nearest
from phalanx.model.rows.explanation import Explanation
from phalanx.model.rows.work import CronInfo, FlowInfo, JobDescription, JobInfo
from phalanx.protocol.requests.gangs import Explain
from phalanx.protocol.requests.jobs import (
    GetJob,
    ListCrons,
    ListElements,
    ListFlows,
    ListJobColumns,
    ListJobs,
)
from phalanx.protocol.requests.news import ListWaiting, WaitInfo, with_wait
from phalanx.protocol.requests.request import Asker, Entry


class JobListing:
    """The handlers of requests that read jobs, flows and cron jobs."""

    def __init__(
        self,
        clock: Clock,
        *,
        nodes: NodeDirectory,
        queues: Queues,
        jobs: JobGangs,
        priorities: Priorities,
        explanations: Explanations,
        flows: Flows,
        crons: Crons,
    ) -> None:
        self._clock = clock
        self._queues = queues
        self._jobs = jobs
        self._priorities = priorities
        self._explanations = explanations
        self._flows = flows
        self._crons = crons
        self.array_tasks = ArrayTaskRequests(jobs, self.need)
        self._columns = ColumnListing(
            jobs,
            clock,
            explanations=explanations,
            waits_as=self.array_tasks.that_waits,
            row=self.row,
            priorities=priorities.of_all,
            nodes=nodes,
        )

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [
            ListJobs.handled_by(self._list_jobs),
            ListJobColumns.handled_by(self._columns.answer),
            Explain.handled_by(lambda _, request: self.explain(request.name)),
            GetJob.handled_by(lambda _, request: self.description(request.name)),
            ListWaiting.handled_by(self._list_waiting),
            ListElements.handled_by(lambda _, request: self.array_tasks.rows(request.name)),
            ListFlows.handled_by(lambda _, request: self.flow_rows()),
            ListCrons.handled_by(lambda _, request: self.cron_rows()),
        ]

    def rows(
        self,
        queue: str | None = None,
        state: str | None = None,
        name: str | None = None,
        ended_within_s: float | None = None,
    ) -> list[JobInfo]:
        """Return jobs for display, oldest first; see `ListJobs`."""
        if queue is not None:
            self._queues.rows(queue)  # raises for a queue that does not exist
        if state is not None:
            there = {name.lower(): name for name in st.JOB}
            if state.lower() not in there:
                near, states = nearest(state, st.JOB), ", ".join(st.JOB)
                raise JobCommandError(
                    f"there is no job state {state!r}{near}; the states are {states}"
                )
            state = there[state.lower()]
        since = float("-inf") if ended_within_s is None else self._clock.wall() - ended_within_s
        listed = (job for job in self._jobs.table.all() if job.spec.element is None)
        among = listed if name is None else [self.need(name)]
        now = self._clock.wall()
        rows = [
            self.row(job, now)
            for job in among
            if (job.finished is None or job.finished >= since)
            and queue in (None, job.spec.queue)
            and state in (None, job.state)
        ]
        if not any(row.pending for row in rows):
            return rows
        waits = {one.job: one for one in self.waiting()}
        return [with_wait(row, waits.get(f"{row.namespace}/{row.name}")) for row in rows]

    def rows_of(self, uids: Iterable[str]) -> list[tuple[str, JobInfo]]:
        """Return the rows of these jobs without the reasons why they wait. Unknown names are left
        out.
        """
        known = ((uid, self._jobs.table.get(uid)) for uid in uids)
        now = self._clock.wall()
        return [(uid, self.row(job, now)) for uid, job in known if job is not None]

    def waiting(self) -> list[WaitInfo]:
        """Return, for each waiting job, why it waits and when it is expected to start."""
        reasons = self._explanations.reasons()
        found = []
        for job in self._jobs.table.all() if reasons else ():
            wait = None
            if job.spec.element is None:
                wait = reasons.get(self.array_tasks.that_waits(job.uid))
            if wait is not None:
                found.append(WaitInfo(job.uid, *wait))
        return found

    def description(self, name: str) -> JobDescription:
        """Return all details of one job."""
        job = self._jobs.table.get(uid_of(name))
        if job is None and (found := self.array_tasks.description(name)) is not None:
            return found
        job = self.need(name)
        gang = self._jobs.gang_of(job.uid)
        priority = self._priorities.of(job.spec)
        ran_s, now = self._jobs.keep_time(job), self._clock.wall()
        return job_description(job, priority, now, gang, self._jobs.logs(job.uid), ran_s)

    def explain(self, name: str) -> Explanation:
        """Return why a gang or job waits. For a flow, a cron job, or a job that has no gang now,
        explain its state instead. Raises JobNotFoundError.
        """
        uid = uid_of(name)
        job = self._jobs.table.get(uid)
        held = None if job is None else why_held_back(job, self._clock.wall())
        if job is not None and held is not None:
            return explain_held(job, held)
        if job is not None and (rests := resting.first(job, self._clock.wall())) is not None:
            why = resting.why_rests(rests, self._clock.wall())
            return explain_held(job, HeldBack("rests", f"{rests.name}: {rests.reason}; {why}"))
        if job is not None and (why := why_preparing(job)):
            return explain_held(job, HeldBack("prepares", why))
        if job is not None and (pending := self.array_tasks.that_waits(uid)) != uid:
            return self._explanations.explain(pending)
        if job is None and (array_task := self.array_tasks.description(name)) is not None:
            # The task's former place may belong to another task now.
            return explain_array_task(array_task)
        if self._explanations.find(name) is not None:
            return self._explanations.explain(name)
        if job is not None:
            return explain_job(job)
        if (flow := self._flows.table.get(uid)) is not None:
            return explain_flow(flow)
        if (cron := self._crons.table.get(uid)) is not None:
            return explain_cron(cron, self._clock.wall())
        tables = (self._jobs.table, self._flows.table, self._crons.table)
        return self._explanations.explain(
            name, (row.spec.name for one in tables for row in one.all())
        )

    def flow_rows(self) -> list[FlowInfo]:
        """Return flows for display."""
        return [
            FlowInfo(
                name=flow.spec.name,
                namespace=flow.spec.namespace,
                state=flow.state,
                reason=flow.reason,
                submitted=flow.submitted,
                steps={name: step.state for name, step in flow.steps.items()},
            )
            for flow in self._flows.table.all()
        ]

    def cron_rows(self) -> list[CronInfo]:
        """Return cron jobs for display."""
        return [
            CronInfo(
                name=cron.spec.name,
                namespace=cron.spec.namespace,
                schedule=cron.spec.schedule,
                state="Suspended" if cron.spec.suspend else "Active",
                active=cron.active,
                last_scheduled=cron.last_scheduled,
                last_success=cron.last_success,
            )
            for cron in self._crons.table.all()
        ]

    def need(self, name: str) -> JobRecord:
        """Return the job with that name. Raises JobNotFoundError."""
        job = self._jobs.table.get(uid_of(name))
        if job is None:
            if self.array_tasks.are_meant(name):
                raise JobNotFoundError(self.array_tasks.no_such(name))
            jobs = (job.spec.name for job in self._jobs.table.all())
            near = nearest(name.removeprefix("default/"), jobs) or ";"
            raise JobNotFoundError(f"there is no job {name!r}{near} `phalanx jobs` lists them")
        return job

    def row(self, job: JobRecord, now: float) -> JobInfo:
        """Return a job for display, without the reason why it waits."""
        row = job_row(job, self._priorities.of(job.spec), now, self._jobs.keep_time(job))
        error = self._jobs.errors.get(job.uid)
        return row if error is None else msgspec.structs.replace(row, reason=DEFECT + error)

    def _list_waiting(self, asker: Asker[list[WaitInfo]], request: ListWaiting) -> list[WaitInfo]:
        jobs = ((one, self._jobs.table.get(one.job)) for one in self.waiting())
        return [one for one, job in jobs if job is None or sees(asker, job.spec.user)]

    def _list_jobs(self, asker: Asker[list[JobInfo]], request: ListJobs) -> list[JobInfo]:
        ended_within_s = request.ended_within_s
        rows = self.rows(request.queue, request.state, request.name, ended_within_s)
        return [row for row in rows if sees(asker, row.user)]


def uid_of(name: str) -> JobId:
    """Return the id of a job, flow or cron job: its name with its namespace."""
    return JobId(name if "/" in name else f"default/{name}")
