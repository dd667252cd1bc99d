"""The arrays of short commands of one driver. They keep their places while users change them and
faults happen.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import msgspec

from phalanx.errors import PhalanxError
from phalanx.model.jobs import states as st
from phalanx.model.jobs.arrays import ArraySpec
from phalanx.model.jobs.dependencies import AFTER_CORR, Dependencies, Dependency
from phalanx.model.jobs.spec import JobSpec, Policy, Process, TaskGroup, Template
from phalanx.model.rows.work import AppliedInfo
from phalanx.protocol.requests.jobs import ApplyManifests, Command, CommandJob, Manifest
from phalanx_research.chaos.driver import SimDriver
from phalanx_research.chaos.members import WORK
from phalanx_research.chaos.options import Options

Later = Callable[[float, Callable[[], None]], None]

_RETRIES: tuple[tuple[Policy, ...], ...] = (
    (),
    (Policy(action=st.RESTART_JOB, events=(st.POD_FAILED, st.POD_EVICTED)),),
)


class SweepProgram:
    """The arrays of one driver, drawn from the seed."""

    def __init__(
        self, options: Options, driver: SimDriver, queues: list[str], later: Later
    ) -> None:
        self._options = options
        self._driver = driver
        self._queues = queues
        self._later = later
        self._rng: random.Random = driver.host.kernel.rng(f"sweeps of {driver.name}")
        self._asked: list[JobSpec] = []

    def plan(self, left_s: float) -> None:
        """Submit the arrays, spread over `left_s` seconds."""
        for number in range(self._options.sweeps):
            self._later(self._rng.uniform(0.0, left_s), partial(self._submit, number))

    def _submit(self, number: int) -> None:
        rng, promises = self._rng, self._driver.promises.jobs
        spec = self._spec(f"{self._driver.name}-sweep-{number}")
        self._asked.append(spec)
        commands = [
            (rng.uniform(0.1, 4.0), rng.choice(("cancel some", "hold", "suspend", "cancel")))
            for _ in range(rng.choice((0, 1, 1, 2)))
        ]

        def answered(answer: Callable[[], list[AppliedInfo]]) -> None:
            try:
                answer()
            except PhalanxError:
                return  # the array is too large for the present cluster
            promises.taken(spec)
            for after_s, what in commands:
                self._later(after_s, partial(self._do, what, spec))

        if not {"hold", "suspend"} & {what for _, what in commands}:
            promises.runs_once(spec)
        promises.asked(spec)
        manifest = Manifest("Job", msgspec.msgpack.encode(spec))
        request = ApplyManifests([manifest], spec.uid.encode())
        self._driver.owner.requests.call_async(request, answered)

    def _do(self, what: str, spec: JobSpec) -> None:
        rng = self._rng
        if what == "cancel some":
            assert spec.array is not None
            first = rng.randint(0, spec.array.last)
            self._command("cancel", f"{spec.uid}[{first}-{min(first + 5, spec.array.last)}]")
        elif what == "cancel":
            self._command("cancel", spec.uid)
        else:
            back: Command = "release" if what == "hold" else "resume"
            self._command("hold" if what == "hold" else "suspend", spec.uid)
            self._later(rng.uniform(0.2, 3.0), partial(self._command, back, spec.uid))

    def _command(self, command: Command, name: str) -> None:
        self._driver.owner.requests.notify(CommandJob(name, command))

    def _spec(self, name: str) -> JobSpec:
        rng = self._rng
        work = (WORK, f"{rng.choice((0.005, 0.02, 0.1))}", f"{rng.choice((0.0, 0.05, 0.3))}")
        template = Template(
            processes=(Process(command=work, requests=(("CPU", rng.choice((0.5, 1.0))),)),),
            restart=rng.choice(("Never", "Never", "OnFailure")),
            grace_s=rng.choice((0.0, 0.5)),
        )
        last, limit = rng.randint(10, 150), rng.choice((None, None, 1, 3))
        pairs = [one for one in self._asked if one.array is not None and one.array.last >= last]
        after = None
        if pairs and rng.random() < 0.5:
            pair = Dependency(kind=AFTER_CORR, job=rng.choice(pairs).uid)
            after = Dependencies(needs=(pair,))
        return JobSpec(
            name=name,
            queue=rng.choice(self._queues),
            groups=(TaskGroup(name="a", template=template),),
            policies=rng.choice(_RETRIES),
            max_retry=rng.choice((1, 3)),
            priority=rng.choice((0, 0, 5)),
            array=ArraySpec(ranges=((0, last, 1),), limit=limit),
            after=after,
        )
