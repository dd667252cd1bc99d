"""Answers requests about jobs: creating, changing, ending, listing and explaining them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from phalanx.errors import JobCommandError, JobNotFoundError
from phalanx.head.effects import HeadEffects
from phalanx.head.gangs.explaining import Explanations
from phalanx.head.gangs.feasibility import check_side_by_side, check_sum
from phalanx.head.gangs.network_domains import Domains
from phalanx.head.jobs import events as ev
from phalanx.head.jobs import resting
from phalanx.head.jobs.admission import check_moments, with_queue_times
from phalanx.head.jobs.array_task_requests import ArrayTaskRequests
from phalanx.head.jobs.columns import ColumnListing
from phalanx.head.jobs.crons import CronDeleted, Crons, CronSubmitted, CronSuspended
from phalanx.head.jobs.explaining import (
    explain_array_task,
    explain_cron,
    explain_flow,
    explain_held,
    explain_job,
)
from phalanx.head.jobs.flows import Flows
from phalanx.head.jobs.images import with_images
from phalanx.head.jobs.job_gangs import JobGangs
from phalanx.head.jobs.past_runs import PastJobs
from phalanx.head.jobs.priorities import Priorities
from phalanx.head.jobs.probing import Prober
from phalanx.head.jobs.resizing import resized
from phalanx.head.jobs.rows import DEFECT, job_description, job_row, why_preparing
from phalanx.head.jobs.time_limits import HeldBack, why_held_back
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.queues.control import Queues
from phalanx.head.reservations.control import CalendarControl
from phalanx.head.rights.owners import owned_by, sees
from phalanx.manifests.check import object_faults
from phalanx.manifests.hypernodes import HyperNode
from phalanx.manifests.job_rules import job_faults
from phalanx.manifests.names import shown
from phalanx.manifests.shapes import shape_of
from phalanx.model.environments import TOOL_LABEL
from phalanx.model.ids import JobId
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import CronRecord, FlowRecord, JobRecord
from phalanx.model.jobs.spec import CronSpec, FlowSpec, JobSpec, PriorityClass
from phalanx.model.nearest import nearest
from phalanx.model.reservations import Reservation
from phalanx.model.rows.explanation import Explanation
from phalanx.model.rows.work import AppliedInfo, CronInfo, FlowInfo, JobDescription, JobInfo
from phalanx.protocol.requests.gangs import Explain
from phalanx.protocol.requests.jobs import (
    ApplyManifests,
    CommandJob,
    DeleteJob,
    GetJob,
    ListCrons,
    ListElements,
    ListFlows,
    ListHyperNodes,
    ListJobColumns,
    ListJobs,
    Manifest,
    ResizeJob,
    UpdateJob,
)
from phalanx.protocol.requests.news import ListWaiting, WaitInfo, with_wait
from phalanx.protocol.requests.request import Asker, Entry
from phalanx.scheduler.cycle.specs import QueueSpec

KINDS: dict[str, Any] = {
    "Job": JobSpec,
    "JobTemplate": JobSpec,
    "JobFlow": FlowSpec,
    "CronJob": CronSpec,
    "Queue": QueueSpec,
    "PriorityClass": PriorityClass,
    "HyperNode": HyperNode,
    "Reservation": Reservation,
}
MAX_ANNOTATIONS_BYTES = 256 * 1024
"""The largest size of all annotations of a job, in bytes, as in Kubernetes."""
NAMESPACED = ("Job", "JobTemplate", "JobFlow", "CronJob")
COMMANDS = {
    "suspend": st.ABORT_JOB,
    "resume": st.RESUME_JOB,
    "cancel": st.TERMINATE_JOB,
    "requeue": st.RESTART_JOB,
}
FOLLOWS = {
    "suspend": (st.ABORTING, st.ABORTED),
    "resume": (st.RESTARTING, st.PENDING, st.RUNNING),
    "cancel": (st.TERMINATING, st.TERMINATED),
    "requeue": (st.RESTARTING, st.PENDING, st.RUNNING),
}
"""For each command, the states that the job may have after the command."""


class JobRequests:
    """The handlers of requests about jobs, flows, cron jobs and manifests."""

    def __init__(
        self,
        effects: HeadEffects,
        prober: Prober,
        *,
        nodes: NodeDirectory,
        queues: Queues,
        jobs: JobGangs,
        priorities: Priorities,
        domains: Domains,
        explanations: Explanations,
        past: PastJobs,
        calendar: CalendarControl,
    ) -> None:
        self._past = past
        self._calendar = calendar
        self._internal_errors = internal_errors = effects.internal_errors
        self._clock = effects.clock
        self._nodes = nodes
        self._explanations = explanations
        self._queues = queues
        self._jobs = jobs
        self._priorities = priorities
        self._domains = domains
        self.array_tasks = ArrayTaskRequests(jobs, self.need)
        self._columns = ColumnListing(
            jobs,
            effects.clock,
            explanations=explanations,
            waits_as=self.array_tasks.that_waits,
            row=self._row,
            priorities=priorities.of_all,
            nodes=nodes,
        )
        self.flows = Flows(effects.state_store, prober, jobs, self.submit, internal_errors)
        self.crons = Crons(effects.state_store, jobs, self.submit, internal_errors)
        jobs.on_change = self._changed
        jobs.on_forget = self._forgotten
        self.follow: Callable[[JobRecord], None] = lambda job: None
        self.forgotten: Callable[[JobRecord], None] = lambda job: None
        """`follow` is called with every job that changes, and `forgotten` with every job that is
        forgotten.
        """
        self.within: Callable[[JobSpec], JobSpec] = lambda spec: spec
        self.submitted: Callable[[JobSpec], None] = lambda spec: None
        """`within` returns a job with its owner's limits applied. `submitted` is called with each
        job before the job is created. Both raise JobCommandError if the job exceeds a limit.
        """

        self.missing: Callable[[list[str]], list[str]] = lambda packages: []
        """Returns those of these packages that were not uploaded."""

    def packages(self) -> set[str]:
        """Return the packages of jobs that are not over, and of cron jobs."""
        specs = [job.spec for job in self._jobs.all_jobs() if not job.is_finished]
        specs += [cron.spec.job for cron in self.crons.table.all()]
        return {one.sha256 for spec in specs for one in spec.packages}

    def _forgotten(self, job: JobRecord) -> None:
        self.crons.job_gone(job)
        self.forgotten(job)

    def _changed(self, job: JobRecord) -> None:
        with self._internal_errors.kept_apart("flow", job.uid):
            self.flows.job_changed(job)
        with self._internal_errors.kept_apart("cron", job.uid):
            self.crons.job_changed(job)
        self._past.job_changed(job)
        self.follow(job)

    def tick(self) -> None:
        """Do what is due for jobs, flows and cron jobs."""
        self._jobs.tick()
        with self._internal_errors.kept_apart("flow"):
            self.flows.tick(self._clock.now())
        self.crons.tick()

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [
            ApplyManifests.handled_by(self._apply_manifests),
            CommandJob.handled_by(self._command_job),
            ResizeJob.handled_by(self._resize_job),
            UpdateJob.handled_by(self._update_job),
            DeleteJob.handled_by(self._delete_job),
            ListJobs.handled_by(self._list_jobs),
            ListJobColumns.handled_by(self._columns.answer),
            Explain.handled_by(lambda _, request: self.explain(request.name)),
            GetJob.handled_by(lambda _, request: self.description(request.name)),
            ListWaiting.handled_by(self._list_waiting),
            ListElements.handled_by(lambda _, request: self.array_tasks.rows(request.name)),
            ListFlows.handled_by(lambda _, request: self.flow_rows()),
            ListCrons.handled_by(lambda _, request: self.cron_rows()),
            ListHyperNodes.handled_by(lambda _, request: self._domains.rows(self._nodes.living())),
        ]

    # ---- creating -----------------------------------------------------------------------------

    def _apply_manifests(
        self, asker: Asker[list[AppliedInfo]], request: ApplyManifests
    ) -> list[AppliedInfo]:
        done: list[AppliedInfo] = []
        for manifest in request.manifests:
            kind, name = manifest.kind, ""
            try:
                spec = owned_by(_read(manifest), asker)
                name = spec.name
                what = self._put(kind, spec, request.id)
            except (JobCommandError, ValueError) as error:
                before = ", ".join(f"{one.kind}/{one.name}" for one in done)
                if not before:
                    raise
                text = f"{kind}/{shown(name)}: {error} (created before it: {before})"
                raise type(error)(text) from None
            namespace = spec.namespace if kind in NAMESPACED else ""
            done.append(AppliedInfo(kind=kind, name=spec.name, namespace=namespace, done=what))
            asker.about += f"{', ' if asker.about else ''}{kind} {spec.name}"
        return done

    def is_repeated(self, request: ApplyManifests) -> bool:
        """Whether an earlier head has handled the request: it created the last object of the
        request, which still exists.
        """
        if not request.manifests:
            return False
        last = request.manifests[-1]
        try:
            return self._is_made(last.kind, _read(last), request.id)
        except (JobCommandError, ValueError):
            return False

    def _is_made(self, kind: str, spec: Any, request: bytes) -> bool:
        """Whether this request has created the object. Only jobs, flows and cron jobs store the id
        of the request that created them.
        """
        known: JobRecord | FlowRecord | CronRecord | None = None
        if kind == "Job":
            known = self._jobs.table.get(spec.uid)
        elif kind == "JobFlow":
            known = self.flows.table.get(spec.uid)
        elif kind == "CronJob":
            known = self.crons.table.get(spec.uid)
        return known is not None and bool(request) and known.request == request

    def _put(self, kind: str, spec: Any, request: bytes) -> str:
        if self._is_made(kind, spec, request):
            return "created"
        if kind == "Job":
            self.submit(spec, request)
        elif kind == "JobTemplate":
            self.flows.put_template(spec)
        elif kind == "JobFlow":
            for job in self.flows.jobs_of(spec):
                self._admitted(job)
            self.flows.submit(spec, request)
        elif kind == "CronJob":
            self._admitted(spec.job)
            self.crons.handle(CronSubmitted(spec=spec, request=request))
        elif kind == "HyperNode":
            return self._domains.put(spec)
        elif kind == "Reservation":
            return self._calendar.put(spec)
        elif kind == "Queue":
            return self._queues.put(spec)
        else:
            self._priorities.put(spec)
        return "created"

    def submit(self, spec: JobSpec, request: bytes = b"") -> None:
        """Submit a new job, by the request of this id.

        Raises QueueUnavailableError and GangInfeasibleError; JobCommandError if the name is taken
        or the times are impossible; BatchFileError for an invalid placement; ValueError for an
        unknown priority class.
        """
        self._priorities.of(spec)
        spec = self._admitted(spec)
        wall = self._clock.wall()
        check_moments(spec, wall, wall)
        self._check_size(spec, self._queues.capability(spec.queue))
        spec = with_images(spec, self._container_tools())
        for group in spec.groups:
            shape_of(spec, group)  # raises now if the placement is invalid
        if missing := self.missing([one.sha256 for one in spec.packages]):
            raise JobCommandError(
                f"package {missing[0]} is not at the head: upload it before the job is submitted"
            )
        self.submitted(spec)
        self._jobs.handle(ev.Submitted(spec=spec, request=request))

    def _container_tools(self) -> set[str]:
        tools = {record.labels.get(TOOL_LABEL, "") for record in self._nodes.possible()}
        return tools - {""}

    def _admitted(self, spec: JobSpec) -> JobSpec:
        """Return the job with its queue's time limits, if the queue accepts it.

        Raises QueueUnavailableError. Raises JobCommandError if the job's time is above the queue's
        limit, if the job may not use its reservation, or if a license does not exist.
        """
        queue = self._queues.require_open(spec.queue)
        self._calendar.check(spec)
        return self.within(with_queue_times(spec, self._queues.time_limits(queue.name)))

    def _check_size(self, spec: JobSpec, limits: dict[str, float]) -> None:
        domains = self._domains.within(spec.topology, self._nodes.possible())
        for group in spec.groups:
            needs = group.template.needs
            least = min(group.min_available, spec.min_available)
            if not needs or not least:
                continue
            check_side_by_side(f"job {spec.name}", spec.queue, [needs] * least, limits, domains)
        begun = [group for group in spec.groups if group.depends_on is None]
        # Members with equal requests were already compared above.
        if len(begun) > 1 and spec.min_available >= sum(group.min_available for group in begun):
            together = [g.template.needs for g in begun for _ in range(g.min_available)]
            nodes = [record.whole for record in self._nodes.possible()]
            check_sum(f"job {spec.name}", spec.queue, together, limits, nodes)

    # ---- commands ----------------------------------------------------------------------------

    def _command_job(self, asker: Asker[None], request: CommandJob) -> None:
        command = request.command
        cron = self.crons.table.get(_uid(request.name))
        if cron is not None and command in ("suspend", "resume"):
            suspend = command == "suspend"
            self.crons.handle(CronSuspended(cron=cron.spec.uid, suspend=suspend))
            return
        if self.array_tasks.are_meant(request.name):
            self.array_tasks.command(request.name, command, is_again=asker.is_again)
            return
        job = self.need(request.name)
        if asker.is_again and job.state in FOLLOWS.get(command, ()):
            return
        if command == "requeue" and (job.spec.array is not None or not job.count(st.RUNNING)):
            does = "is an array: name array tasks of it" if job.spec.array else f"is {job.state}"
            raise JobCommandError(f"job {job.uid} {does}: only running work can be requeued")
        if command in COMMANDS:
            self._jobs.handle(ev.Commanded(job=job.uid, action=COMMANDS[command]))
        else:
            self._jobs.handle(ev.Held(job=job.uid, is_held=command == "hold"))

    def _resize_job(self, asker: Asker[JobInfo], request: ResizeJob) -> JobInfo:
        job = self.need(request.name)
        self.array_tasks.refuse(request.name, "resized")
        if job.spec.array is not None:
            raise JobCommandError(
                f"job {job.uid} is an array: the number of its tasks cannot change"
            )
        spec = resized(job.spec, request.replicas, request.min_members)
        self._check_size(spec, self._queues.capability(spec.queue))
        self._jobs.resize(job, spec)
        return self._row(job, self._clock.wall())

    def _update_job(self, asker: Asker[JobInfo], request: UpdateJob) -> JobInfo:
        job = self.need(request.name)
        self.array_tasks.refuse(request.name, "changed")
        spec = job.spec
        if request.priority is not None:
            spec = msgspec.structs.replace(spec, priority=request.priority, priority_class="")
        if request.time_limit_s is not None:
            timing = msgspec.structs.replace(spec.timing, limit_s=request.time_limit_s)
            spec = msgspec.structs.replace(spec, timing=timing)
        if request.annotations:
            spec = _with_annotations(spec, request.annotations)
        if faults := job_faults(spec):
            raise JobCommandError("; ".join(fault.reason for fault in faults))
        if request.reservation is not None:
            spec = msgspec.structs.replace(spec, reservation=request.reservation)
            self._calendar.check(spec)
        if request.queue is not None and request.queue != spec.queue:
            spec = self._admitted(msgspec.structs.replace(spec, queue=request.queue))
            self._check_size(spec, self._queues.capability(spec.queue))
        spec = self.within(with_queue_times(spec, self._queues.time_limits(spec.queue)))
        check_moments(spec, job.submitted, self._clock.wall())
        if spec != job.spec:
            self._jobs.handle(ev.Changed(job=job.uid, spec=spec))
        return self._row(job, self._clock.wall())

    def _delete_job(self, asker: Asker[None], request: DeleteJob) -> None:
        uid = _uid(request.name)
        self.array_tasks.refuse(request.name, "deleted")
        if self._jobs.table.get(uid) is not None:
            self._jobs.handle(ev.Deleted(job=uid))
        elif self.flows.table.get(uid) is not None:
            self.flows.delete(uid)
        elif self.crons.table.get(uid) is not None:
            self.crons.handle(CronDeleted(cron=uid))
        elif self._domains.delete(request.name.rpartition("/")[2]):  # a HyperNode has no namespace
            return
        elif not asker.is_again:
            self.need(request.name)

    def _list_waiting(self, asker: Asker[list[WaitInfo]], request: ListWaiting) -> list[WaitInfo]:
        jobs = ((one, self._jobs.table.get(one.job)) for one in self.waiting())
        return [one for one, job in jobs if job is None or sees(asker, job.spec.user)]

    def _list_jobs(self, asker: Asker[list[JobInfo]], request: ListJobs) -> list[JobInfo]:
        ended_within_s = request.ended_within_s
        rows = self.rows(request.queue, request.state, request.name, ended_within_s)
        return [row for row in rows if sees(asker, row.user)]

    # ---- rows for display ----------------------------------------------------------------------

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
            self._row(job, now)
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
        return [(uid, self._row(job, now)) for uid, job in known if job is not None]

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
        job = self._jobs.table.get(_uid(name))
        if job is None and (found := self.array_tasks.description(name)) is not None:
            return found
        job = self.need(name)
        gang = self._jobs.gang_of(job.uid)
        priority = self._priorities.of(job.spec)
        self._jobs.keep_time(job)
        return job_description(job, priority, self._clock.wall(), gang, self._jobs.logs(job.uid))

    def explain(self, name: str) -> Explanation:
        """Return why a gang or job waits. For a flow, a cron job, or a job that has no gang now,
        explain its state instead. Raises JobNotFoundError.
        """
        uid = _uid(name)
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
        if (flow := self.flows.table.get(uid)) is not None:
            return explain_flow(flow)
        if (cron := self.crons.table.get(uid)) is not None:
            return explain_cron(cron, self._clock.wall())
        return self._explanations.explain(name)

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
            for flow in self.flows.table.all()
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
            for cron in self.crons.table.all()
        ]

    def _row(self, job: JobRecord, now: float) -> JobInfo:
        self._jobs.keep_time(job)
        row = job_row(job, self._priorities.of(job.spec), now)
        error = self._jobs.errors.get(job.uid)
        return row if error is None else msgspec.structs.replace(row, reason=DEFECT + error)

    def need(self, name: str) -> JobRecord:
        """Return the job with that name. Raises JobNotFoundError."""
        job = self._jobs.table.get(_uid(name))
        if job is None:
            if self.array_tasks.are_meant(name):
                raise JobNotFoundError(self.array_tasks.no_such(name))
            jobs = (job.spec.name for job in self._jobs.table.all())
            near = nearest(name.removeprefix("default/"), jobs) or ";"
            raise JobNotFoundError(f"there is no job {name!r}{near} `phalanx jobs` lists them")
        return job


def _read(manifest: Manifest) -> Any:
    """Return the object that was sent. Raises ValueError for an unknown kind or unreadable bytes,
    and JobCommandError for an object that would be refused in a manifest. The check is made here
    because clients may not have made it.
    """
    kind = manifest.kind
    if kind not in KINDS:
        raise ValueError(f"unsupported kind {shown(kind)}; supported: {', '.join(KINDS)}")
    try:
        spec = msgspec.msgpack.decode(manifest.spec, type=KINDS[kind])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"cannot read these bytes as a {kind}: {error}") from None
    if kind != "Queue" and (
        found := object_faults(kind, spec)
    ):  # queues have their own rules, which check them
        raise JobCommandError("; ".join(found))
    return spec


def _with_annotations(spec: JobSpec, annotations: Mapping[str, str]) -> JobSpec:
    """Return the job with these annotations set. Raises JobCommandError if the annotations together
    exceed Kubernetes' limit.
    """
    kept = dict(spec.annotations) | dict(annotations)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in kept.items())
    if size > MAX_ANNOTATIONS_BYTES:
        raise JobCommandError(
            f"annotations: {size:,} bytes in all; the most is {MAX_ANNOTATIONS_BYTES:,}"
        )
    return msgspec.structs.replace(spec, annotations=tuple(kept.items()))


def _uid(name: str) -> JobId:
    return JobId(name if "/" in name else f"default/{name}")
