"""What people ask of jobs: to be made, changed, ended, listed and explained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from phalanx.batch.specs import QueueSpec
from phalanx.errors import JobCommandError, JobNotFoundError
from phalanx.head.clock import Clock
from phalanx.head.gangs.admission import check_size, check_sum
from phalanx.head.gangs.explaining import Explanations
from phalanx.head.gangs.network_domains import Domains
from phalanx.head.jobs import crons
from phalanx.head.jobs import events as ev
from phalanx.head.jobs.control import Jobs
from phalanx.head.jobs.families import Crons, Flows, Priorities
from phalanx.head.jobs.probing import Prober
from phalanx.head.jobs.resizing import resized
from phalanx.head.jobs.rows import job_row, job_story
from phalanx.head.nodes import NodeDirectory
from phalanx.head.queues.control import Queues
from phalanx.head.state_store import StateStore
from phalanx.manifests.hypernodes import HyperNode
from phalanx.manifests.shapes import shape_of
from phalanx.model.jobs import states as st
from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.spec import CronSpec, FlowSpec, JobSpec, PriorityClass

KINDS: dict[str, Any] = {
    "Job": JobSpec,
    "JobTemplate": JobSpec,
    "JobFlow": FlowSpec,
    "CronJob": CronSpec,
    "Queue": QueueSpec,
    "PriorityClass": PriorityClass,
    "HyperNode": HyperNode,
}
COMMANDS = {"suspend": st.ABORT_JOB, "resume": st.RESUME_JOB, "cancel": st.TERMINATE_JOB}


class JobRequests:
    """Answers questions about jobs and their kin."""

    def __init__(
        self,
        state_store: StateStore,
        clock: Clock,
        nodes: NodeDirectory,
        prober: Prober,
        queues: Queues,
        jobs: Jobs,
        priorities: Priorities,
        domains: Domains,
        explanations: Explanations,
    ) -> None:
        self._clock = clock
        self._nodes = nodes
        self._explanations = explanations
        self._queues = queues
        self._jobs = jobs
        self._priorities = priorities
        self._domains = domains
        self.flows = Flows(state_store, prober, jobs, self.submit)
        self.crons = Crons(state_store, jobs, self.submit)
        jobs.on_change = self._changed
        jobs.on_forget = self.crons.job_gone

    def _changed(self, job: JobRecord) -> None:
        self.flows.job_changed(job)
        self.crons.job_changed(job)

    def tick(self) -> None:
        """Time has passed."""
        self._jobs.tick()
        self.flows.tick(self._clock.now())
        self.crons.tick()

    # ---- making ------------------------------------------------------------------------------

    def apply(self, objects: list[tuple[str, bytes]]) -> list[dict[str, str]]:
        """Make, or change, objects of manifests: (kind, spec in msgpack), in order.

        Raises what the first that cannot be made raises; those before it are made.
        """
        done: list[dict[str, str]] = []
        for kind, data in objects:
            spec = msgspec.msgpack.decode(data, type=KINDS[kind])
            try:
                what = self._put(kind, spec)
            except (JobCommandError, ValueError) as error:
                before = ", ".join(f"{one['kind']}/{one['name']}" for one in done)
                if not before:
                    raise
                text = f"{kind}/{spec.name}: {error} (made before it: {before})"
                raise type(error)(text) from None
            namespace = getattr(spec, "namespace", "")
            done.append({"kind": kind, "name": spec.name, "namespace": namespace, "done": what})
        return done

    def _put(self, kind: str, spec: Any) -> str:
        if kind == "Job":
            self.submit(spec)
        elif kind == "JobTemplate":
            self.flows.put_template(spec)
        elif kind == "JobFlow":
            self.flows.submit(spec)
        elif kind == "CronJob":
            self.crons.handle(crons.CronSubmitted(spec=spec))
        elif kind == "HyperNode":
            return self._domains.put(spec)
        elif kind == "Queue":
            return self._queues.put(spec)
        else:
            self._priorities.put(spec)
        return "created"

    def submit(self, spec: JobSpec) -> None:
        """A new job. Raises QueueUnavailableError, GangInfeasibleError, JobCommandError for a name
        that is taken, BatchFileError for a placement and ValueError for a priority class that there
        is not."""
        self._priorities.of(spec)
        queue = self._queues.admit(spec.queue)
        self._check_size(spec, self._queues.capability(queue.name))
        for group in spec.groups:
            shape_of(spec, group)  # which says now what is wrong with where it may be placed
        self._jobs.handle(ev.Submitted(spec=spec))

    def _check_size(self, spec: JobSpec, limits: dict[str, float]) -> None:
        domains = self._domains.within(spec.topology, self._nodes.living())
        for group in spec.groups:
            needs = group.template.needs
            least = min(group.min_available, spec.min_available)
            if not needs or not least:
                continue
            check_size(f"job {spec.name}", spec.queue, [needs] * least, limits, domains)
        begun = [group for group in spec.groups if group.depends_on is None]
        if spec.min_available >= sum(group.min_available for group in begun):
            together = [g.template.needs for g in begun for _ in range(g.min_available)]
            nodes = [record.totals for record in self._nodes.living()]
            check_sum(f"job {spec.name}", spec.queue, together, limits, nodes)

    # ---- commands ----------------------------------------------------------------------------

    def command(self, name: str, action: str) -> dict[str, Any]:
        """suspend, resume or cancel a job. Raises JobNotFoundError, and JobCommandError."""
        cron = self.crons.table.get(_uid(name))
        if cron is not None and action in ("suspend", "resume"):
            suspend = action == "suspend"
            self.crons.handle(crons.CronSuspended(cron=cron.spec.uid, suspend=suspend))
            return {"name": cron.spec.name, "state": "Suspended" if suspend else "Active"}
        job = self.need(name)
        self._jobs.handle(ev.Commanded(job=job.uid, action=COMMANDS[action]))
        return self._row(job)

    def resize(self, name: str, replicas: dict[str, int], least: int | None) -> dict[str, Any]:
        """Another size for a job that lives: by group, or "" for its only one. Raises
        JobNotFoundError, JobCommandError, and GangInfeasibleError for a minimum that the cluster
        could never hold."""
        job = self.need(name)
        spec = resized(job.spec, replicas, least)
        self._check_size(spec, self._queues.capability(spec.queue))
        self._jobs.resize(job, spec)
        return self._row(job)

    def delete(self, name: str) -> None:
        """End a job, flow or cron job if it lives, and forget it; or forget a network domain."""
        uid = _uid(name)
        if self._jobs.table.get(uid) is not None:
            self._jobs.handle(ev.Deleted(job=uid))
        elif self.flows.table.get(uid) is not None:
            self.flows.delete(uid)
        elif self.crons.table.get(uid) is not None:
            self.crons.handle(crons.CronDeleted(cron=uid))
        elif not self._domains.delete(name.rpartition("/")[2]):  # domains have no namespace
            self.need(name)

    # ---- showing -----------------------------------------------------------------------------

    def rows(self, queue: str | None = None, state: str | None = None) -> list[dict[str, Any]]:
        """Jobs for people, oldest first."""
        rows = [
            self._row(job)
            for job in self._jobs.table.all()
            if queue in (None, job.spec.queue) and state in (None, job.state)
        ]
        if any(row["pending"] for row in rows):
            reasons = self._explanations.reasons()
            for row in rows:
                reason, position = reasons.get(f"{row['namespace']}/{row['name']}", ("", None))
                row["reason"] = reason or row["reason"]
                row["position"] = position
        return rows

    def story(self, name: str) -> dict[str, Any]:
        """All about one job."""
        job = self.need(name)
        gang = self._jobs.gang_of(job.uid)
        return job_story(job, self._priorities.of(job.spec), gang, self._jobs.logs(job.uid))

    def flow_rows(self) -> list[dict[str, Any]]:
        """Flows for people."""
        return [
            {
                "name": flow.spec.name,
                "namespace": flow.spec.namespace,
                "state": flow.state,
                "reason": flow.reason,
                "submitted": flow.submitted,
                "steps": {name: step.state for name, step in flow.steps.items()},
            }
            for flow in self.flows.table.all()
        ]

    def cron_rows(self) -> list[dict[str, Any]]:
        """Cron jobs for people."""
        return [
            {
                "name": cron.spec.name,
                "namespace": cron.spec.namespace,
                "schedule": cron.spec.schedule,
                "state": "Suspended" if cron.spec.suspend else "Active",
                "active": cron.active,
                "last_scheduled": cron.last_scheduled,
                "last_success": cron.last_success,
            }
            for cron in self.crons.table.all()
        ]

    def _row(self, job: JobRecord) -> dict[str, Any]:
        return job_row(job, self._priorities.of(job.spec), self._clock.wall())

    def need(self, name: str) -> JobRecord:
        """The job of that name. Raises JobNotFoundError."""
        job = self._jobs.table.get(_uid(name))
        if job is None:
            raise JobNotFoundError(f"there is no job {name!r}; `phalanx jobs` lists them")
        return job

    def methods(self) -> dict[str, Callable[..., Any]]:
        """Questions by their names."""
        return {
            "apply": lambda ask, objects: self.apply(objects),
            "command": lambda ask, name, action: self.command(name, action),
            "resize": lambda ask, name, replicas, least=None: self.resize(name, replicas, least),
            "delete": lambda ask, name: self.delete(name),
            "jobs": lambda ask, queue=None, state=None: self.rows(queue, state),
            "job": lambda ask, name: self.story(name),
            "flows": lambda ask: self.flow_rows(),
            "crons": lambda ask: self.cron_rows(),
            "hypernodes": lambda ask: self._domains.rows(self._nodes.living()),
        }


def _uid(name: str) -> str:
    return name if "/" in name else f"default/{name}"
