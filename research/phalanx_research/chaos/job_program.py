"""Submits, stops, resumes, cancels and deletes the jobs of simulated drivers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from phalanx.errors import PhalanxError
from phalanx.model.jobs import states as st
from phalanx.model.jobs.arrays import ArraySpec
from phalanx.model.jobs.dependencies import (
    AFTER,
    AFTER_ANY,
    AFTER_CORR,
    AFTER_NOT_OK,
    AFTER_OK,
    SINGLETON,
    Dependencies,
    Dependency,
)
from phalanx.model.jobs.spec import DependsOn, JobSpec, Policy, Process, TaskGroup, Template
from phalanx.model.jobs.timing import (
    NODE,
    PREEMPTED,
    TIMEOUT,
    Moment,
    Requeue,
    Timing,
    WarningSignal,
)
from phalanx.model.rows.work import AppliedInfo
from phalanx.protocol.requests.jobs import (
    ApplyManifests,
    Command,
    CommandJob,
    DeleteJob,
    Manifest,
    UpdateJob,
)
from phalanx_research.chaos.driver import SimDriver
from phalanx_research.chaos.members import WORK
from phalanx_research.chaos.options import Options

Later = Callable[[float, Callable[[], None]], None]

_POLICIES: tuple[tuple[Policy, ...], ...] = (
    (),
    (Policy(action=st.RESTART_JOB, events=(st.POD_FAILED,)),),
    (Policy(action=st.RESTART_TASK, events=(st.POD_FAILED,)),),
    (Policy(action=st.RESTART_POD, events=(st.POD_FAILED,)),),
    (Policy(action=st.TERMINATE_JOB, events=(st.POD_FAILED,)),),
    (Policy(action=st.ABORT_JOB, events=(st.POD_FAILED,)),),
    (Policy(action=st.COMPLETE_JOB, events=(st.TASK_COMPLETED,)),),
    (Policy(action=st.RESTART_JOB, events=(st.POD_EVICTED, st.POD_FAILED)),),
    (Policy(action=st.RESTART_JOB, events=(st.POD_FAILED,), timeout_s=0.5),),
)


_KINDS = (AFTER_OK, AFTER_ANY, AFTER_NOT_OK, AFTER)


class JobProgram:
    """The jobs of one driver, drawn from the seed. They outlive the driver."""

    def __init__(
        self, options: Options, driver: SimDriver, queues: list[str], later: Later
    ) -> None:
        self._options = options
        self._driver = driver
        self._queues = queues
        self._later = later
        self._rng: random.Random = driver.host.kernel.rng(f"jobs of {driver.name}")
        self._others_rng = driver.host.kernel.rng(f"others of jobs of {driver.name}")
        self._pairs_rng = driver.host.kernel.rng(f"pairs of jobs of {driver.name}")
        self._lines_rng = driver.host.kernel.rng(f"lines of jobs of {driver.name}")
        self._arrays: list[tuple[str, int]] = []
        """The arrays submitted so far, each with its last index."""
        self._time_rng = driver.host.kernel.rng(f"times of jobs of {driver.name}")

    def plan(self, left_s: float) -> None:
        """Submit the driver's jobs, spread over this time."""
        options = self._options
        for number in range(-(-options.jobs // options.drivers)):
            self._later(self._rng.uniform(0.0, left_s), partial(self._submit, number))

    def _submit(self, number: int) -> None:
        rng = self._rng
        spec = self._with_others(self._spec(f"{self._driver.name}-{number}"), number)
        spec = self._in_line(spec)
        draw = rng.random()
        if not _fits(spec, self._options.nodes):
            return  # until the head notices that a machine is gone, the cluster looks larger to it

        def answered(answer: Callable[[], list[AppliedInfo]]) -> None:
            try:
                answer()
            except PhalanxError:
                return  # the job is too large for the present cluster
            self._driver.promises.jobs.taken(spec)
            self._change_while_it_waits(spec)
            if draw < 0.15:
                self._command("suspend", spec)
                self._later(rng.uniform(0.5, 3.0), partial(self._command, "resume", spec))
            elif draw < 0.25:
                self._later(rng.uniform(0.0, 2.0), partial(self._command, "cancel", spec))
            elif draw < 0.35:
                self._later(rng.uniform(0.0, 2.0), partial(self._delete, spec))

        self._driver.promises.jobs.asked(spec)
        manifest = Manifest("Job", msgspec.msgpack.encode(spec))
        self._driver.owner.requests.call_async(
            ApplyManifests([manifest], spec.uid.encode()), answered
        )

    def _change_while_it_waits(self, spec: JobSpec) -> None:
        """Hold and release a job, or move it to another queue. The head refuses this if the job no
        longer waits.
        """
        if not self._options.has_times:
            return
        rng, notify = self._time_rng, self._driver.owner.requests.notify
        draw = rng.random()
        if spec.timing.is_held or draw < 0.2:
            if not spec.timing.is_held:
                self._later(rng.uniform(0.0, 1.0), partial(self._command, "hold", spec))
            self._later(rng.uniform(1.0, 4.0), partial(self._command, "release", spec))
        if draw > 0.7:
            queue, priority = rng.choice(self._queues), rng.choice((0, 5, 9))
            request = UpdateJob(spec.uid, queue=queue, priority=priority)
            self._later(rng.uniform(0.0, 2.0), partial(notify, request))

    def _timing(self) -> Timing:
        """Draw a job's begin, deadline and limits; most jobs have none."""
        rng = self._time_rng
        if not self._options.has_times or rng.random() < 0.4:
            return Timing()
        limit_s = rng.choice((None, 0.5, 3.0, 20.0))
        deadline = rng.choice((None, None, Moment(after_s=rng.uniform(1.0, 60.0))))
        rule = Requeue(
            reasons=rng.choice(((), (TIMEOUT, PREEMPTED, NODE), (PREEMPTED, NODE))),
            exit_codes=rng.choice(((), (1,))),
            most=rng.choice((0, 1, 3)),
        )
        has_end = limit_s is not None or deadline is not None
        return Timing(
            limit_s=limit_s,
            begin=rng.choice((None, None, Moment(after_s=rng.uniform(0.0, 5.0)))),
            deadline=deadline,
            signal=WarningSignal(name="USR1", before_s=1.0) if has_end else None,
            requeue=rng.choice((None, rule)),
            is_held=rng.random() < 0.2,
        )

    def _with_others(self, spec: JobSpec, number: int) -> JobSpec:
        """Make the job an array, or make it depend on other jobs of this driver."""
        rng = self._others_rng
        if not self._options.has_others:
            return spec
        if rng.random() < 0.3:
            group = msgspec.structs.replace(spec.groups[0], replicas=1, min_available=1)
            last, limit = rng.randint(0, 6), rng.choice((None, 1, 2))
            spec = msgspec.structs.replace(
                spec,
                groups=(group,),
                min_available=1,
                policies=(),
                array=ArraySpec(ranges=((0, last, 1),), limit=limit),
            )
        if number and rng.random() < 0.6:
            needs = tuple(
                Dependency(
                    kind=rng.choice(_KINDS),
                    job=f"{spec.namespace}/{self._driver.name}-{rng.randrange(number)}",
                )
                for _ in range(rng.choice((1, 1, 2)))
            )
            after = Dependencies(needs=tuple(dict.fromkeys(needs)), is_any=rng.random() < 0.3)
            spec = msgspec.structs.replace(spec, after=after)
        return self._with_pairs(spec)

    def _with_pairs(self, spec: JobSpec) -> JobSpec:
        """Make each task of an array depend on the same task of an earlier array that is at least
        as long.
        """
        if spec.array is None:
            return spec
        rng, last = self._pairs_rng, spec.array.last
        longer = [uid for uid, other in self._arrays if other >= last]
        self._arrays.append((spec.uid, last))
        if spec.after is not None or not longer or rng.random() < 0.2:
            return spec
        pair = Dependency(kind=AFTER_CORR, job=rng.choice(longer))
        return msgspec.structs.replace(spec, after=Dependencies(needs=(pair,)))

    def _in_line(self, spec: JobSpec) -> JobSpec:
        """Return the job, sometimes with a `singleton` dependency: jobs with the same key then run
        one at a time. The key belongs to this driver, or all drivers share it.
        """
        rng, after = self._lines_rng, spec.after
        if not self._options.has_others or rng.random() < 0.4:
            return spec
        word = rng.choice(("line", "line", "line", f"line-{self._driver.name}"))
        one = Dependency(kind=SINGLETON, job=f"{spec.namespace}/{word}")
        if after is not None and after.is_any:
            return spec  # a job that already has places would begin out of turn
        needs = (*(after.needs if after is not None else ()), one)
        return msgspec.structs.replace(spec, after=Dependencies(needs=needs))

    def _command(self, command: Command, spec: JobSpec) -> None:
        self._driver.owner.requests.notify(CommandJob(spec.uid, command))

    def _delete(self, spec: JobSpec) -> None:
        self._driver.promises.jobs.deleted(spec.uid)
        self._driver.owner.requests.notify(DeleteJob(spec.uid))

    def _spec(self, name: str) -> JobSpec:
        rng = self._rng
        groups = [self._group("a", None)]
        if rng.random() < 0.4:
            after = DependsOn(names=("a",)) if rng.random() < 0.5 else None
            groups.append(self._group("b", after))
        return JobSpec(
            name=name,
            queue=rng.choice(self._queues),
            groups=tuple(groups),
            min_available=sum(group.min_available for group in groups),
            policies=rng.choice(_POLICIES),
            max_retry=rng.choice((1, 3)),
            priority=rng.choice((0, 0, 5)),
            timing=self._timing(),
        )

    def _group(self, name: str, after: DependsOn | None) -> TaskGroup:
        rng, options = self._rng, self._options
        node: dict[str, float] = rng.choice(options.nodes)
        needs: dict[str, Any] = {"CPU": rng.choice([0.5, 1.0, node["CPU"]])}
        if "GPU" in node and rng.random() < 0.4:
            needs["GPU"] = 1.0
        replicas = rng.randint(1, 3)
        work = (WORK, f"{options.task_s}", f"{rng.choice((0.0, 0.1, 0.5))}")
        template = Template(
            processes=(Process(command=work, requests=tuple(sorted(needs.items()))),),
            restart=rng.choice(("Never", "Never", "OnFailure")),
            grace_s=rng.choice((0.0, 0.1, 1.0)),
        )
        return TaskGroup(
            name=name,
            replicas=replicas,
            min_available=rng.choice((replicas, rng.randint(1, replicas))),
            template=template,
            max_retry=rng.choice((1, 3)),
            depends_on=after,
        )


def _fits(spec: JobSpec, nodes: Sequence[dict[str, float]]) -> bool:
    """Whether the minimums of all task groups together fit into the empty cluster."""
    left = [dict(node) for node in nodes]
    needs = [g.template.needs for g in spec.groups for _ in range(g.min_available)]
    for need in sorted(needs, key=lambda n: (-n.get("GPU", 0.0), -n["CPU"])):
        there = [n for n in left if all(n.get(k, 0.0) >= v for k, v in need.items())]
        if not there:
            return False
        for name, amount in need.items():
            there[0][name] -= amount
    return True
