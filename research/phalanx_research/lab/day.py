"""Runs a lab's day: users submit jobs, the head decides, machines run jobs, and the head sometimes
dies.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from phalanx.errors import PhalanxError
from phalanx.model.ids import PREFIX_BYTES
from phalanx.model.jobs.arrays import split_element
from phalanx.model.jobs.records import JobRecord
from phalanx.protocol.bundle_messages import StartMember
from phalanx.protocol.requests.gangs import SetRules, ShowPlan
from phalanx.protocol.requests.jobs import ApplyManifests, CommandJob, Manifest
from phalanx.protocol.requests.queues import CreateQueue
from phalanx.protocol.requests.reservations import Reserve, SetLicense
from phalanx_research.chaos.kernel import Kernel
from phalanx_research.lab.estimates import Estimates
from phalanx_research.lab.gpu_usage import GpuUsage
from phalanx_research.lab.head import MIDNIGHT, LabHead, Store
from phalanx_research.lab.machine import Machine
from phalanx_research.lab.people import HOUR_S, Size, machines, queues
from phalanx_research.lab.rules import rules
from phalanx_research.lab.work import LICENSE, LICENSES, Submission, draw_day, reservations

AWAY_S = 20.0
"""Seconds from a head's death to the next head's start."""
_FIRST_CYCLE_S = 0.5
"""Seconds after the start of a new head at which its promises are compared with those of the last
head. By then the new head has made decisions. Jobs that could not be submitted while no head ran
have not requested anything yet.
"""
_LOOK_S = 600.0
"""Seconds between two checks of the expected starts of waiting work."""
_LONGEST_HOURS = 96.0
"""Hours after the last submission after which the simulation ends even if work is unfinished."""
assert len(b"no0000") == PREFIX_BYTES


class Day:
    """One day of one lab. Equal arguments give equal days."""

    def __init__(self, size: Size, seed: int, *, promised: int = 0, restarts: int = 0) -> None:
        """`promised`: the number of gangs in each queue to which places are promised; 0: none.
        `restarts`: how often the head dies, at times drawn from the seed.
        """
        self.size = size
        self.kernel = kernel = Kernel(f"lab {seed}")
        self.work = draw_day(size, seed)
        self.store = Store()
        self.gpus = GpuUsage(kernel, size.gpus)
        self.estimates = Estimates(MIDNIGHT)
        self.of_job: dict[str, Submission] = {one.spec.uid: one for one in self.work}
        self.gave_up: set[str] = set()
        self.refused: list[str] = []
        self.promises_met = 0
        """The number of promises that were in force when a head died."""
        self.broken: list[str] = []
        """Descriptions of the promises that the next head did not keep."""
        self.heads = 0
        self._left: dict[tuple[str, str], float] = {}
        """The seconds of work left for each interrupted member that keeps its progress."""
        self.machines = [
            Machine(number, total, kernel, self) for number, total in enumerate(machines(size))
        ]
        self.head: LabHead | None = None
        self._start_head()
        self._prepare(promised)
        for one in self.work:
            kernel.at(one.at_s, partial(self._submit, one))
        kernel.after(_LOOK_S, self._look)
        draw = kernel.rng("restarts")
        for _ in range(restarts):
            kernel.at(draw.uniform(0.05, 0.95) * size.hours * HOUR_S, self._head_dies)

    def run(self, progress: Callable[[float, float], None]) -> None:
        """Run until all submitted work has ended. `progress` gets the number of hours that have
        passed, and the total number of hours.
        """
        hours, last = 0.0, self.size.hours
        while hours < last or (self._lives() and hours < last + _LONGEST_HOURS):
            hours += 0.5
            self.kernel.run(hours * HOUR_S)
            progress(min(hours, last), last)

    def records(self) -> list[JobRecord]:
        """Return all jobs that the head knows."""
        assert self.head is not None
        return list(self.head.control.gang_scheduler.jobs.table.all())

    def _lives(self) -> bool:
        return self.head is None or any(not job.is_finished for job in self.records())

    # ---- the head ----------------------------------------------------------------------------

    def _start_head(self) -> None:
        self.heads += 1
        self.kernel.log("head", f"starts, life {self.heads}")
        self.head = LabHead(self.kernel, self.store, self.machines)

    def _head_dies(self) -> None:
        if self.head is not None:
            self.kernel.log("head", "dies")
            self.head.die()
            self.head = None
            before = self.store.promises()
            self.kernel.after(AWAY_S, self._start_head)
            self.kernel.after(AWAY_S + _FIRST_CYCLE_S, partial(self._compare, before))

    def _compare(self, before: dict[str, float]) -> None:
        """Check that this head has not promised any job a later time than the last head had."""
        after = self.store.promises()
        self.promises_met += len(before)
        for uid, at_s in before.items():
            now_s = after.get(uid)
            if now_s is None and uid not in self.estimates.started:
                self.broken.append(f"{uid} was promised a place, and the next head forgot it")
            elif now_s is not None and now_s > max(at_s, MIDNIGHT + self.kernel.now):
                self.broken.append(f"{uid} starts {now_s - at_s:g} s later with the next head")

    def _prepare(self, promised: int) -> None:
        """Create queues, licenses and reservations once the machines have joined."""
        self.kernel.run(0.0)
        assert self.head is not None
        if promised:
            self.head.ask(SetRules(rules(promised), "lab.yaml"))
        for name, fields in queues(self.size):
            self.head.ask(CreateQueue(name, fields))
        self.head.ask(SetLicense(LICENSE, LICENSES))
        for spec in reservations(self.size):
            self.head.ask(Reserve(spec))

    # ---- users -------------------------------------------------------------------------------

    def _submit(self, one: Submission) -> None:
        if self.head is None:  # the command tries again until a head runs
            self.kernel.after(AWAY_S, partial(self._submit, one))
            return
        manifest = Manifest("Job", msgspec.msgpack.encode(one.spec))
        try:
            self.head.ask(ApplyManifests([manifest], one.spec.uid.encode()))
        except PhalanxError as error:
            self.refused.append(f"{one.spec.name}: {error}")
            return
        self.kernel.log(one.spec.user, f"submits {one.spec.name}")
        if one.patience_s is not None:
            self.kernel.after(one.patience_s, partial(self._give_up, one))

    def _give_up(self, one: Submission) -> None:
        if one.spec.uid not in self.estimates.started and self.head is not None:
            self.gave_up.add(one.spec.uid)
            self.head.ask(CommandJob(one.spec.uid, "cancel"))

    def _look(self) -> None:
        self.kernel.after(_LOOK_S, self._look)
        if self.head is not None:
            self.estimates.look(self.head.ask(ShowPlan()))

    # ---- the work of members (Programs) ------------------------------------------------------

    def begins(self, order: StartMember) -> float:
        """Return the seconds for which a member's command will run."""
        self.estimates.began(order.job, self.kernel.now)
        work, position = self._work_of(order)
        self.gpus.change(work.kind, _gpus(work), 1)
        return self._left.get((order.job, order.name), work.runs_s[position])

    def ends(self, order: StartMember, ran_s: float, code: int) -> None:
        """Record that a member's command has ended."""
        work, position = self._work_of(order)
        self.gpus.change(work.kind, _gpus(work), -1)
        if work.keeps and code:
            member = (order.job, order.name)
            left_s = self._left.get(member, work.runs_s[position]) - ran_s
            self._left[member] = max(left_s, 1.0)

    def _work_of(self, order: StartMember) -> tuple[Submission, int]:
        found = split_element(order.job)
        array, index = found if found is not None else (order.job, "0")
        return self.of_job[array], int(index)


def _gpus(work: Submission) -> float:
    return work.spec.groups[0].template.needs.get("GPU", 0.0)
