"""The life cycle of flows: each step's job is made once the steps before it have succeeded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from phalanx.head.internal_errors import InternalErrors
from phalanx.head.jobs import events as ev
from phalanx.head.jobs.job_gangs import JobGangs
from phalanx.head.jobs.probing import Prober, Probing, Watch
from phalanx.head.state_store import StateStore
from phalanx.manifests.patching import job_name, step_job
from phalanx.model.ids import JobId
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import FlowRecord, JobCommandError, JobRecord, StepRecord, note
from phalanx.model.jobs.spec import FlowSpec, JobSpec, Probe, Step
from phalanx.model.lifecycle import move
from phalanx.protocol.wire_errors import is_defect


class FlowEvent(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something that happened to the flow `namespace/name`."""

    flow: str


class FlowSubmitted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A new flow was submitted by the request of this id."""

    spec: FlowSpec
    request: bytes = b""


class StepChanged(FlowEvent, frozen=True, kw_only=True, tag=True):
    """The job of a step has changed its state. `members` counts its members by group and state."""

    step: str
    state: str
    reason: str = ""
    members: dict[str, dict[str, int]] = {}


class StepRefused(FlowEvent, frozen=True, kw_only=True, tag=True):
    """The job of a step could not be made, for example because its template is missing or its name
    is taken.
    """

    step: str
    reason: str


class ProbePassed(FlowEvent, frozen=True, kw_only=True, tag=True):
    """Probe number `probe` of the step, which was requested by `watch`, has passed."""

    step: str
    probe: int


class FlowDeleted(FlowEvent, frozen=True, kw_only=True, tag=True):
    """A user deletes the flow. The flow and its jobs are ended and forgotten."""


Event = FlowSubmitted | StepChanged | StepRefused | ProbePassed | FlowDeleted


class FlowEffects(Protocol):
    """Requests that the flows make to their shell."""

    def make_job(self, flow: FlowRecord, step: Step) -> None:
        """Submit the job of a step (`manifests.patching`). StepChanged or StepRefused follows."""
        ...

    def watch(self, flow: FlowRecord, step: Step, number: int, probe: Probe) -> None:
        """Watch the port that `probe` describes on the members of the step's targets. ProbePassed
        follows when the port answers.
        """
        ...

    def delete_jobs(self, flow: FlowRecord, steps: list[str]) -> None:
        """End and forget the jobs of these steps."""
        ...

    def publish(self, flow: FlowRecord) -> None:
        """Store a changed flow, and report the change to its watchers."""
        ...

    def forget(self, flow: FlowRecord) -> None:
        """Forget a deleted flow."""
        ...


class FlowTable:
    """All flows, by `namespace/name`."""

    def __init__(self, effects: FlowEffects) -> None:
        self._effects = effects
        self._flows: dict[str, FlowRecord] = {}

    def get(self, uid: str) -> FlowRecord | None:
        return self._flows.get(uid)

    def all(self) -> list[FlowRecord]:
        """Return every flow, oldest first."""
        return list(self._flows.values())

    def restore(self, records: list[FlowRecord], now: float) -> None:
        """Restore stored flows."""
        for flow in records:
            self._flows[flow.spec.uid] = flow
            self._watch(flow)
            self._go_on(flow, now)

    def handle(self, event: Event, now: float) -> None:
        """Handle an event. Raises JobCommandError for a name that is taken or unknown."""
        if isinstance(event, FlowSubmitted):
            self._submit(event.spec, event.request, now)
            return
        flow = self._flows.get(event.flow)
        if flow is None:
            if isinstance(event, FlowDeleted):
                raise JobCommandError(f"there is no flow {event.flow!r}")
            return  # this is about a flow that was deleted in the meantime
        if isinstance(event, FlowDeleted):
            self._go(flow, st.TERMINATING, "deleted", now)
            self._effects.delete_jobs(flow, [n for n, s in flow.steps.items() if s.state])
            del self._flows[event.flow]
            self._effects.forget(flow)
            return
        step = flow.steps.get(event.step)
        if step is None:
            return
        why = ""
        if isinstance(event, StepChanged):
            step.state, step.members = event.state, dict(event.members)
            why = f"the job of step {event.step} is {event.state}"
            why += f": {event.reason}" if event.reason else ""
        elif isinstance(event, ProbePassed):
            if event.probe not in step.passed:
                step.passed.append(event.probe)
        else:
            step.state = st.FAILED
            why = f"step {event.step}: {event.reason}"
        self._go_on(flow, now, why)

    def _submit(self, spec: FlowSpec, request: bytes, now: float) -> None:
        if spec.uid in self._flows:
            raise JobCommandError(f"flow {spec.uid} exists already; delete it first")
        steps = {step.name: StepRecord() for step in spec.steps}
        flow = FlowRecord(spec=spec, submitted=now, request=request, steps=steps)
        self._flows[spec.uid] = flow
        note(flow.history, now, "", st.PENDING, "submitted")
        self._watch(flow)
        self._go_on(flow, now)

    def _watch(self, flow: FlowRecord) -> None:
        for step in flow.spec.steps:
            known = flow.steps[step.name]
            for number, probe in enumerate(step.probes):
                if probe.kind != "taskStatus" and not known.state and number not in known.passed:
                    self._effects.watch(flow, step, number, probe)

    def _go_on(self, flow: FlowRecord, now: float, why: str = "") -> None:
        """Start the jobs of all steps of a flow that can start now, and store the flow. `why`
        describes the change of a step that caused this call.
        """
        if flow.state in (st.PENDING, st.RUNNING):
            self._judge(flow, now, why)
        if flow.state in (st.PENDING, st.RUNNING):
            for step in flow.spec.steps:
                known = flow.steps[step.name]
                if not known.state and _is_ready(flow, step):
                    known.state = st.PENDING
                    self._effects.make_job(flow, step)
        self._effects.publish(flow)

    def _judge(self, flow: FlowRecord, now: float, why: str) -> None:
        states = {name: step.state for name, step in flow.steps.items()}
        unwell = st.FINISHED - {st.COMPLETED}
        bad = [name for name, state in states.items() if state in unwell]
        if bad:
            reason = why or f"the job of step {bad[0]} is {states[bad[0]]}"
            self._go(flow, st.FAILED, reason, now)
        elif all(state == st.COMPLETED for state in states.values()):
            self._go(flow, st.SUCCEED, "all jobs have completed", now)
            if flow.spec.retain == "delete":
                self._effects.delete_jobs(flow, list(states))
        elif flow.state == st.PENDING and any(s not in ("", st.PENDING) for s in states.values()):
            self._go(flow, st.RUNNING, "a job runs", now)

    def _go(self, flow: FlowRecord, state: str, reason: str, now: float) -> None:
        note(flow.history, now, flow.state, state, reason)
        flow.state = move(st.FLOW, "flow", flow.state, state, flow.spec.uid)
        flow.reason = reason


def owned(job: JobSpec, flow: FlowSpec) -> JobSpec:
    """Return the job of a step as if the flow's owner had submitted it, even if another user wrote
    the template.
    """
    return msgspec.structs.replace(job, user=flow.user, submitted_by=flow.submitted_by)


def _is_ready(flow: FlowRecord, step: Step) -> bool:
    """Whether the step can start: all its targets have completed or, if the step has probes, every
    probe has passed on the targets.
    """
    targets = [flow.steps[name] for name in step.targets]
    if all(target.state == st.COMPLETED for target in targets):
        return True
    if not step.probes or not all(target.state for target in targets):
        return False
    passed = flow.steps[step.name].passed
    return all(
        _shows(targets, probe) if probe.kind == "taskStatus" else number in passed
        for number, probe in enumerate(step.probes)
    )


def _shows(targets: list[StepRecord], probe: Probe) -> bool:
    return any(target.members.get(probe.group, {}).get(probe.phase, 0) for target in targets)


class Flows:
    """The shell of the flows at the head, with the templates of their jobs."""

    def __init__(
        self,
        state_store: StateStore,
        prober: Prober,
        jobs: JobGangs,
        submit: Callable[[JobSpec], None],
        internal_errors: InternalErrors,
    ) -> None:
        self._internal_errors = internal_errors
        self.table = FlowTable(self)
        self._state_store = state_store
        self._jobs = jobs
        self._submit = submit
        self.templates: dict[str, JobSpec] = {}
        self._steps: dict[str, tuple[str, str]] = {}
        """The flow and the step of each job that belongs to a flow."""
        self._probing = Probing(prober, self._addresses_of, self._passed)

    def put_template(self, spec: JobSpec) -> None:
        """Store a template that is new or has changed."""
        self.templates[spec.uid] = spec
        self._state_store.keep("templates", spec.uid.encode(), spec)

    def submit(self, spec: FlowSpec, request: bytes = b"") -> None:
        """Submit a new flow for the request with this id."""
        self._handle(FlowSubmitted(spec=spec, request=request))

    def jobs_of(self, flow: FlowSpec) -> list[JobSpec]:
        """Return the jobs that a flow would make from the current templates. Raises ManifestError
        if the patch of a step does not result in a valid job.
        """
        known = ((s, self.templates.get(f"{flow.namespace}/{s.name}")) for s in flow.steps)
        return [
            owned(step_job(flow, step, template), flow)
            for step, template in known
            if template is not None
        ]

    def delete(self, uid: str) -> None:
        """End a flow and its jobs."""
        self._handle(FlowDeleted(flow=uid))

    def restore(self, templates: Iterable[JobSpec], records: list[FlowRecord]) -> None:
        """Restore stored flows and templates. The jobs must have been restored before."""
        self.templates = {spec.uid: spec for spec in templates}
        for record in records:
            for step in record.spec.steps:
                self._know(record, step.name)
        for record in records:
            with self._internal_errors.kept_apart("flow", record.spec.uid):
                self.table.restore([record], self._jobs.wall())
        self._jobs.work_off()

    def job_changed(self, job: JobRecord) -> None:
        """Tell the job's flow that the job of one of its steps has changed."""
        found = self._steps.get(job.uid)
        if found is not None:
            flow, step = found
            self._handle(
                StepChanged(
                    flow=flow,
                    step=step,
                    state=job.state,
                    reason=job.reason,
                    members=dict(job.tally),
                )
            )

    def _handle(self, event: Event) -> None:
        self.table.handle(event, self._jobs.wall())
        self._jobs.work_off()

    def _know(self, flow: FlowRecord, step: str) -> JobId:
        uid = JobId(f"{flow.spec.namespace}/{job_name(flow.spec, step)}")
        self._steps[uid] = (flow.spec.uid, step)
        return uid

    # ---- effects -----------------------------------------------------------------------------

    def make_job(self, flow: FlowRecord, step: Step) -> None:
        """Submit the job of a step after the current action."""
        self._jobs.after(flow.spec.uid, lambda: self._make(flow, step))

    def _make(self, flow: FlowRecord, step: Step) -> None:
        self._know(flow, step.name)
        template = self.templates.get(f"{flow.spec.namespace}/{step.name}")
        try:
            if template is None:
                raise ValueError(f"there is no JobTemplate {step.name!r}")
            self._submit(owned(step_job(flow.spec, step, template), flow.spec))
        except Exception as error:
            if is_defect(error):
                self._internal_errors.add("flow", error, flow.spec.uid)
            refused = StepRefused(flow=flow.spec.uid, step=step.name, reason=str(error))
            self._handle(refused)

    def watch(self, flow: FlowRecord, step: Step, number: int, probe: Probe) -> None:
        """Probe a port until it answers."""
        self._probing.add(Watch(flow.spec.uid, step.name, number), probe)

    def _addresses_of(self, watch: Watch, probe: Probe) -> list[str] | None:
        flow = self.table.get(watch.flow)
        if flow is None or flow.state not in (st.PENDING, st.RUNNING):
            return None
        if flow.steps[watch.step].state:
            # the step's job was made without the probe, because its targets have completed
            return None
        targets = next(s.targets for s in flow.spec.steps if s.name == watch.step)
        jobs = [f"{flow.spec.namespace}/{job_name(flow.spec, target)}" for target in targets]
        return [address for job in jobs for address in self._jobs.addresses(job, probe.group)]

    def _passed(self, watch: Watch) -> None:
        passed = ProbePassed(flow=watch.flow, step=watch.step, probe=watch.number)
        self._handle(passed)

    def tick(self, now: float) -> None:
        """Do what is due. `now` is on the monotonic clock."""
        self._probing.tick(now)

    def delete_jobs(self, flow: FlowRecord, steps: list[str]) -> None:
        """End and forget the jobs of these steps."""
        for step in steps:
            uid = self._know(flow, step)
            del self._steps[uid]
            if self._jobs.table.get(uid) is not None:
                self._jobs.later(ev.Deleted(job=uid))

    def publish(self, flow: FlowRecord) -> None:
        """Store a flow that has changed."""
        self._state_store.keep("flows", flow.spec.uid.encode(), flow)

    def forget(self, flow: FlowRecord) -> None:
        """Delete a flow from the store."""
        self._state_store.keep("flows", flow.spec.uid.encode(), None)
