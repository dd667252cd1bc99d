"""Flows and cron jobs at the control store, and the templates and priorities that jobs refer to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from phalanx.errors import PhalanxError
from phalanx.head.jobs import crons, flows
from phalanx.head.jobs import events as ev
from phalanx.head.jobs.control import Jobs
from phalanx.head.jobs.probing import Prober, Probing, Watch
from phalanx.head.state_store import StateStore
from phalanx.manifests.patching import job_name, step_job
from phalanx.model.jobs import states as st
from phalanx.model.jobs.families import CronRecord, FlowRecord
from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.spec import JobSpec, PriorityClass, Probe, Step

BUILT_IN = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
"""Priority classes that are always there, as in Kubernetes."""


class Priorities:
    """Priority classes by name."""

    def __init__(self, state_store: StateStore) -> None:
        self._state_store = state_store
        self._classes = {n: PriorityClass(name=n, value=v) for n, v in BUILT_IN.items()}

    def put(self, made: PriorityClass) -> None:
        """A class is new, or has another value for jobs from now on."""
        self._classes[made.name] = made
        self._state_store.keep("priorities", made.name.encode(), made)

    def load(self, classes: Iterable[PriorityClass]) -> None:
        """Know them again."""
        for one in classes:
            self._classes[one.name] = one

    def of(self, spec: JobSpec) -> int:
        """A job's priority. Raises ValueError for a class that there is not."""
        name = spec.priority_class
        if name:
            if name not in self._classes:
                known = ", ".join(sorted(self._classes))
                raise ValueError(f"there is no priority class {name!r}; there is {known}")
            return self._classes[name].value
        default = next((c.value for c in self._classes.values() if c.is_default), 0)
        return spec.priority or default


class Flows:
    """Flows, and the templates that their jobs are made from."""

    def __init__(
        self,
        state_store: StateStore,
        prober: Prober,
        jobs: Jobs,
        submit: Callable[[JobSpec], None],
    ) -> None:
        self.table = flows.FlowTable(self)
        self._state_store = state_store
        self._jobs = jobs
        self._submit = submit
        self.templates: dict[str, JobSpec] = {}
        self._steps: dict[str, tuple[str, str]] = {}
        """(flow, step) of each job that is a flow's."""
        self._probing = Probing(prober, self._addresses_of, self._passed)

    def put_template(self, spec: JobSpec) -> None:
        """A template is new or has changed."""
        self.templates[spec.uid] = spec
        self._state_store.keep("templates", spec.uid.encode(), spec)

    def submit(self, spec: Any) -> None:
        """A new flow."""
        self._handle(flows.FlowSubmitted(spec=spec))

    def delete(self, uid: str) -> None:
        """End a flow and its jobs."""
        self._handle(flows.FlowDeleted(flow=uid))

    def restore(self, templates: Iterable[JobSpec], records: list[FlowRecord]) -> None:
        """Know them again; the jobs are restored before."""
        self.templates = {spec.uid: spec for spec in templates}
        for record in records:
            for step in record.spec.steps:
                self._know(record, step.name)
        self.table.restore(records, self._jobs.wall())
        self._jobs.work_off()

    def job_changed(self, job: JobRecord) -> None:
        """A job may be a step's."""
        found = self._steps.get(job.uid)
        if found is not None:
            flow, step = found
            self._handle(
                flows.StepChanged(flow=flow, step=step, state=job.state, members=dict(job.tally))
            )

    def _handle(self, event: flows.Event) -> None:
        self.table.handle(event, self._jobs.wall())
        self._jobs.work_off()

    def _know(self, flow: FlowRecord, step: str) -> str:
        uid = f"{flow.spec.namespace}/{job_name(flow.spec, step)}"
        self._steps[uid] = (flow.spec.uid, step)
        return uid

    # ---- effects -----------------------------------------------------------------------------

    def make_job(self, flow: FlowRecord, step: Step) -> None:
        """See FlowEffects."""
        self._jobs.after(lambda: self._make(flow, step))

    def _make(self, flow: FlowRecord, step: Step) -> None:
        self._know(flow, step.name)
        template = self.templates.get(f"{flow.spec.namespace}/{step.name}")
        try:
            if template is None:
                raise ValueError(f"there is no JobTemplate {step.name!r}")
            self._submit(step_job(flow.spec, step, template))
        except (PhalanxError, ValueError) as error:
            refused = flows.StepRefused(flow=flow.spec.uid, step=step.name, reason=str(error))
            self._handle(refused)

    def watch(self, flow: FlowRecord, step: Step, number: int, probe: Probe) -> None:
        """See FlowEffects."""
        self._probing.add(Watch(flow.spec.uid, step.name, number), probe)

    def _addresses_of(self, watch: Watch, probe: Probe) -> list[str] | None:
        flow = self.table.get(watch.flow)
        if flow is None or flow.state not in (st.PENDING, st.RUNNING):
            return None
        if flow.steps[watch.step].state:
            return None  # it was made without the probe, as its targets have completed
        targets = next(s.targets for s in flow.spec.steps if s.name == watch.step)
        jobs = [f"{flow.spec.namespace}/{job_name(flow.spec, target)}" for target in targets]
        return [address for job in jobs for address in self._jobs.addresses(job, probe.group)]

    def _passed(self, watch: Watch) -> None:
        passed = flows.ProbePassed(flow=watch.flow, step=watch.step, probe=watch.number)
        self._handle(passed)

    def tick(self, now: float) -> None:
        """Time has passed, by the monotonic clock."""
        self._probing.tick(now)

    def delete_jobs(self, flow: FlowRecord, steps: list[str]) -> None:
        """See FlowEffects."""
        for step in steps:
            uid = self._know(flow, step)
            del self._steps[uid]
            if self._jobs.table.get(uid) is not None:
                self._jobs.later(ev.Deleted(job=uid))

    def publish(self, flow: FlowRecord) -> None:
        """See FlowEffects."""
        self._state_store.keep("flows", flow.spec.uid.encode(), flow)

    def forget(self, flow: FlowRecord) -> None:
        """See FlowEffects."""
        self._state_store.keep("flows", flow.spec.uid.encode(), None)


class Crons:
    """Jobs that are made again and again."""

    def __init__(
        self, state_store: StateStore, jobs: Jobs, submit: Callable[[JobSpec], None]
    ) -> None:
        self.table = crons.CronTable(self)
        self._state_store = state_store
        self._jobs = jobs
        self._submit = submit

    def handle(self, event: crons.Event) -> None:
        """A cron job is new, suspended or deleted."""
        self.table.handle(event, self._jobs.wall())
        self._jobs.work_off()

    def tick(self) -> None:
        """Time has passed."""
        if self._state_store.shortage:
            return  # new work waits for room, and then begins as after any other delay
        alarm = self.table.next_alarm()
        if alarm is not None and alarm <= self._jobs.wall():
            self.table.tick(self._jobs.wall())
            self._jobs.work_off()

    def restore(self, records: list[CronRecord]) -> None:
        """Know them again; the jobs are restored before."""
        self.table.restore(records, self._jobs.wall())
        self._jobs.work_off()

    def job_changed(self, job: JobRecord) -> None:
        """A job may be one of a cron job's."""
        if job.is_finished:
            self._ended(job, job.state)

    def job_gone(self, job: JobRecord) -> None:
        """A job was deleted."""
        self._ended(job, "")

    def _ended(self, job: JobRecord, state: str) -> None:
        if crons.MARK not in dict(job.spec.annotations):
            return
        for cron in self.table.all():
            known = (*cron.active, *cron.succeeded, *cron.failed)
            is_mine = job.spec.namespace == cron.spec.namespace and job.spec.name in known
            is_news = job.spec.name in cron.active or not state
            if is_mine and is_news:
                event = crons.CronJobEnded(cron=cron.spec.uid, job=job.spec.name, state=state)
                self.table.handle(event, self._jobs.wall())

    # ---- effects -----------------------------------------------------------------------------

    def make_job(self, cron: CronRecord, job: JobSpec) -> None:
        """See CronEffects."""
        self._jobs.after(lambda: self._make(cron, job))

    def _make(self, cron: CronRecord, job: JobSpec) -> None:
        try:
            self._submit(job)
        except (PhalanxError, ValueError):
            event = crons.CronJobEnded(cron=cron.spec.uid, job=job.name, state="Failed")
            self.table.handle(event, self._jobs.wall())

    def delete_job(self, cron: CronRecord, name: str) -> None:
        """See CronEffects."""
        uid = f"{cron.spec.namespace}/{name}"
        if self._jobs.table.get(uid) is not None:
            self._jobs.later(ev.Deleted(job=uid))

    def publish(self, cron: CronRecord) -> None:
        """See CronEffects."""
        self._state_store.keep("crons", cron.spec.uid.encode(), cron)

    def forget(self, cron: CronRecord) -> None:
        """See CronEffects."""
        self._state_store.keep("crons", cron.spec.uid.encode(), None)
