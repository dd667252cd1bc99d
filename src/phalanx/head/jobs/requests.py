"""Answers requests to create, change and end jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from phalanx.errors import JobCommandError
from phalanx.head.effects import HeadEffects
from phalanx.head.gangs.explaining import Explanations
from phalanx.head.gangs.feasibility import check_side_by_side, check_sum
from phalanx.head.gangs.network_domains import Domains
from phalanx.head.jobs import events as ev
from phalanx.head.jobs.admission import check_moments, with_time_limit
from phalanx.head.jobs.apart import check_job_apart
from phalanx.head.jobs.crons import CronDeleted, Crons, CronSubmitted, CronSuspended
from phalanx.head.jobs.flows import Flows
from phalanx.head.jobs.images import with_images
from phalanx.head.jobs.job_gangs import JobGangs
from phalanx.head.jobs.listing import JobListing, uid_of
from phalanx.head.jobs.past_runs import PastJobs
from phalanx.head.jobs.priorities import Priorities
from phalanx.head.jobs.probing import Prober
from phalanx.head.jobs.resizing import resized
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.queues.control import Queues
from phalanx.head.reservations.control import ReservationControl
from phalanx.head.rights.owners import owned_by
from phalanx.manifests.check import object_faults
from phalanx.manifests.hypernodes import HyperNode
from phalanx.manifests.job_rules import job_faults
from phalanx.manifests.names import shown
from phalanx.manifests.shapes import shape_of
from phalanx.model.environments import TOOL_LABEL
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import CronRecord, FlowRecord, JobRecord
from phalanx.model.jobs.spec import CronSpec, FlowSpec, JobSpec, PriorityClass
from phalanx.model.reservations import Reservation
from phalanx.model.rows.work import AppliedInfo, JobInfo
from phalanx.protocol.requests.jobs import (
    ApplyManifests,
    CommandJob,
    DeleteJob,
    ListHyperNodes,
    Manifest,
    ResizeJob,
    UpdateJob,
)
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
    **dict.fromkeys(("hold", "release"), (*st.FINISHED, *st.ENDING)),
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
        calendar: ReservationControl,
    ) -> None:
        self._past = past
        self._calendar = calendar
        self._internal_errors = internal_errors = effects.internal_errors
        self._clock = effects.clock
        self._nodes = nodes
        self._queues = queues
        self._jobs = jobs
        self._priorities = priorities
        self._domains = domains
        self.flows = Flows(effects.state_store, prober, jobs, self.submit, internal_errors)
        self.crons = Crons(effects.state_store, jobs, self.submit, internal_errors)
        self.listing = JobListing(
            effects.clock,
            nodes=nodes,
            queues=queues,
            jobs=jobs,
            priorities=priorities,
            explanations=explanations,
            flows=self.flows,
            crons=self.crons,
        )
        self._array_tasks = self.listing.array_tasks
        jobs.on_change = self._changed
        jobs.on_forget = self._forgotten
        self.follow: Callable[[JobRecord], None] = lambda job: None
        self.forgotten: Callable[[JobRecord], None] = lambda job: None
        """`follow` is called with every job that changes, and `forgotten` with every job that is
        forgotten.
        """
        self.longest: Callable[[JobSpec], float | None] = lambda spec: None
        self.submitted: Callable[[JobSpec], None] = lambda spec: None
        """`longest` returns the owner's limit on the time limit of a job, in seconds. `submitted`
        is called with each job before the job is created. Both functions raise JobCommandError if
        the job exceeds a limit of its owner.
        """

        self.missing: Callable[[list[str]], list[str]] = lambda packages: []
        """Returns the packages among these that were not uploaded."""

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
            *self.listing.entries(),
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
        """Whether the request was already carried out, for example by an earlier head. This is so
        if the request's last object exists and was created by this request.
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

        Raises QueueUnavailableError and GangInfeasibleError. Raises JobCommandError if the name is
        taken or the times are impossible, BatchFileError for an invalid placement, and ValueError
        for an unknown priority class.
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
        """Return the job with a time limit (see `_timed`), if its queue accepts it.

        Raises QueueUnavailableError. Raises JobCommandError if the job's time is above a limit, if
        the job may not use its reservation, or if a license does not exist.
        """
        self._queues.require_open(spec.queue)
        self._calendar.check(spec)
        return self._timed(spec)

    def _timed(self, spec: JobSpec) -> JobSpec:
        """Return the job with the time limit that its queue and owner give to jobs without one.
        Raises JobCommandError if the job's time is above a limit of the queue or owner.
        """
        limits = self._queues.time_limits(spec.queue)
        return with_time_limit(spec, limits, self.longest(spec))

    def _check_size(self, spec: JobSpec, limits: dict[str, float]) -> None:
        possible = self._nodes.possible()
        domains = self._domains.within(spec.topology, possible)
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
            nodes = [record.whole for record in possible]
            check_sum(f"job {spec.name}", spec.queue, together, limits, nodes)
        check_job_apart(spec, possible)

    # ---- commands ----------------------------------------------------------------------------

    def _command_job(self, asker: Asker[None], request: CommandJob) -> None:
        command = request.command
        cron = self.crons.table.get(uid_of(request.name))
        if cron is not None and command in ("suspend", "resume"):
            suspend = command == "suspend"
            self.crons.handle(CronSuspended(cron=cron.spec.uid, suspend=suspend))
            return
        if self._array_tasks.are_meant(request.name):
            self._array_tasks.command(request.name, command, is_again=asker.is_again)
            return
        job = self.listing.need(request.name)
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
        job = self.listing.need(request.name)
        self._array_tasks.refuse(request.name, "resized")
        if job.spec.array is not None:
            raise JobCommandError(
                f"job {job.uid} is an array: the number of its tasks cannot change"
            )
        spec = resized(job.spec, request.replicas, request.min_members)
        self._check_size(spec, self._queues.capability(spec.queue))
        self._jobs.resize(job, spec)
        return self.listing.row(job, self._clock.wall())

    def _update_job(self, asker: Asker[JobInfo], request: UpdateJob) -> JobInfo:
        job = self.listing.need(request.name)
        self._array_tasks.refuse(request.name, "changed")
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
        spec = self._timed(spec)
        check_moments(spec, job.submitted, self._clock.wall())
        if spec != job.spec:
            self._jobs.handle(ev.Changed(job=job.uid, spec=spec))
        return self.listing.row(job, self._clock.wall())

    def _delete_job(self, asker: Asker[None], request: DeleteJob) -> None:
        uid = uid_of(request.name)
        self._array_tasks.refuse(request.name, "deleted")
        if self._jobs.table.get(uid) is not None:
            self._jobs.handle(ev.Deleted(job=uid))
        elif self.flows.table.get(uid) is not None:
            self.flows.delete(uid)
        elif self.crons.table.get(uid) is not None:
            self.crons.handle(CronDeleted(cron=uid))
        elif self._domains.delete(request.name.rpartition("/")[2]):  # a HyperNode has no namespace
            return
        elif not asker.is_again:
            self.listing.need(request.name)


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
