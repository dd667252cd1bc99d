"""What the cluster has promised, and what was seen of it from outside: the simulation's checker.

Nothing here asks a machine what it believes where the simulated processes can be asked what they
did: who runs, with which devices, for whom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from phalanx.owner.actors.client import ActorClient, PendingCall
from phalanx.owner.tasks.records import PendingTask
from phalanx.protocol.messages import Call, Lease, Task
from phalanx.protocol.node_messages import CreateActor
from phalanx.sim.chaos.broken import Broken, group_name
from phalanx.sim.chaos.job_promises import JobPromises
from phalanx.sim.chaos.usage import Usage
from phalanx.sim.chaos.worker import Work

if TYPE_CHECKING:
    from phalanx.sim.chaos.driver import SimDriver
    from phalanx.sim.chaos.worker import SimWorker
    from phalanx.sim.chaos.world import World

Key = tuple[str, int]
"""(driver's name, number of its task or call)."""
_LOST_WORKER = frozenset({"crashed", "node", "exited", "oom", "killed"})


class Promise(msgspec.Struct, kw_only=True):
    """One task or call, from its submission to its outcome."""

    driver: str
    what: str
    work: Work
    retries: int
    since: float
    starts: int = 0
    excused: int = 0
    """Starts that cost no retry: it was preempted."""
    ran_on: list[str] = []
    finished_on: list[bytes] = []
    outcome: str = ""
    group: bytes | None = None
    node: str = ""
    """The node that a task is bound to, if any."""


class GangPromise(msgspec.Struct, kw_only=True):
    """One gang: so many of its members run together, or none begins."""

    least: int
    tasks: list[Key]
    begun: set[int] = set()
    """The attempts of which members were told to begin."""


class Promises:
    """Everything that was promised, and what has become of it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.usage = Usage(world)
        self.jobs = JobPromises(world)
        self.kept: dict[Key, Promise] = {}
        self._running: dict[bytes, Key] = {}
        self._ended_under: dict[bytes, Key] = {}
        """What workers ran that have ended."""
        self.gangs: dict[bytes, GangPromise] = {}
        self._alive_as: dict[tuple[bytes, int], bytes] = {}
        """The worker as which each incarnation of an actor was told to be alive."""
        self.counts: dict[str, int] = {}

    # ---- tasks -------------------------------------------------------------------------------

    def task_promised(self, driver: SimDriver, task: PendingTask) -> None:
        """A driver has submitted a task."""
        template = task.template
        strategy = msgspec.json.decode(template.key.strategy) if template.key.strategy else {}
        group = strategy.get("group")
        self._promise(
            driver,
            task.number,
            Promise(
                driver=driver.name,
                what=f"task {template.name}",
                work=_work(task.args),
                retries=template.max_retries,
                since=self._world.kernel.now,
                group=None if group is None else bytes.fromhex(group),
                node=strategy.get("node_id", ""),
            ),
        )

    def task_started(
        self, worker: SimWorker, owner: bytes, task: Task, lease: Lease | None
    ) -> None:
        """A worker begins to run a task."""
        promise = self._started(worker, owner, task.number)
        if lease is None:
            if promise is not None:
                raise Broken(f"{worker.name} runs {promise.what} without a lease", [worker.name])
            return
        in_bundle = lease.placement_group is not None
        self.usage.occupy(worker, lease.resources, lease.devices, in_bundle)

    def task_ended(self, worker: SimWorker) -> None:
        """It ran to its end."""
        self.usage.vacate(worker)
        key = self._running.pop(worker.worker_id, None)
        if key is not None:
            self.kept[key].finished_on.append(worker.worker_id)

    def task_done(self, driver: SimDriver, task: PendingTask, worker: bytes) -> None:
        """The driver has the task's result."""
        promise = self._outcome(driver, task.number, "done")
        if worker not in promise.finished_on:
            raise Broken(
                f"{promise.what} of {driver.name} gave a result that no worker made", [driver.name]
            )

    def task_failed(self, driver: SimDriver, task: PendingTask, kind: str, reason: str) -> None:
        """The driver is told that the task failed: it has to be true."""
        promise = self._outcome(driver, task.number, kind)
        is_true = False
        if kind == "raised":
            is_true = promise.work.ends == "raises"
        elif kind in _LOST_WORKER:
            was_disturbed = promise.ran_on or self._world.had_faults or self._world.dead_nodes
            is_true = 0 <= promise.retries <= task.attempt and bool(
                was_disturbed or promise.group in self._world.removed_groups
            )
        elif kind in ("gang failed", "TaskPlacementGroupRemoved"):
            is_true = promise.group in self._world.removed_groups
        elif kind == "TaskUnschedulableError":
            world = self._world
            is_true = promise.node in world.dead_nodes or promise.node in world.drained_nodes
        if not is_true:
            raise Broken(
                f"{promise.what} of {driver.name} failed as {kind} in attempt {task.attempt + 1} "
                f"of {promise.retries + 1} for no good reason: {reason}",
                [driver.name, *promise.ran_on],
            )

    # ---- gangs -------------------------------------------------------------------------------

    def gang_promised(self, group: bytes, least: int, tasks: list[Key]) -> None:
        """A driver has asked for a gang."""
        self.gangs[group] = GangPromise(least=least, tasks=tasks)
        self.count("gangs")

    def gang_begins(self, group: bytes, attempt: int, placed: int) -> None:
        """The first members of an attempt are told to begin; `placed` of the gang have places."""
        gang = self.gangs.get(group)
        if gang is None or attempt in gang.begun:
            return  # a node that dies between two of these takes members that had their places
        gang.begun.add(attempt)
        over = sum(bool(self.kept[key].outcome) for key in gang.tasks)
        if placed + over < gang.least:
            raise Broken(
                f"gang {group_name(group)} needs {gang.least} members at once and begins "
                f"with {placed} placed and {over} over",
                ["head"],
            )

    # ---- actors ------------------------------------------------------------------------------

    def actor_begun(self, worker: SimWorker, order: CreateActor) -> None:
        """A worker begins to construct an actor."""
        in_bundle = order.placement_group is not None
        self.usage.occupy(worker, order.resources, order.devices, in_bundle)

    def actor_told(self, actor: bytes, incarnation: int, worker: bytes) -> None:
        """The control store says that an actor is alive, in this process."""
        before = self._alive_as.setdefault((actor, incarnation), worker)
        if before != worker:
            names = [self._world.name_of(before), self._world.name_of(worker)]
            raise Broken(
                f"actor {actor.hex()} in its incarnation {incarnation} was alive as {names[0]} and "
                f"as {names[1]}",
                [*names, "head"],
            )

    def actor_dead(self, driver: SimDriver, client: ActorClient) -> None:
        """A driver learns that its actor is dead."""
        self.count("actors dead")

    def call_promised(self, driver: SimDriver, call: PendingCall) -> None:
        """A driver has called an actor."""
        self._promise(
            driver,
            call.number,
            Promise(
                driver=driver.name,
                what=f"call {call.number} of {call.actor.name}",
                work=_work(call.args),
                retries=call.retries,
                since=self._world.kernel.now,
            ),
        )

    def call_started(self, worker: SimWorker, owner: bytes, call: Call) -> None:
        """An actor begins to run a call."""
        self._started(worker, owner, call.number)
        order = worker.actor
        assert order is not None
        alive = self._alive_as.get((order.actor, order.incarnation))
        if alive != worker.worker_id:
            raise Broken(
                f"{worker.name} runs a call of {order.actor.hex()}, which was never told to be "
                "alive there",
                [worker.name, "head"],
            )

    def call_done(self, driver: SimDriver, call: PendingCall, worker: bytes) -> None:
        """The driver has the call's result."""
        self._outcome(driver, call.number, "done")

    def call_failed(self, driver: SimDriver, call: PendingCall, kind: str, reason: str) -> None:
        """The driver is told that the call failed."""
        promise = self._outcome(driver, call.number, kind)
        if kind == "raised" and promise.work.ends != "raises":
            raise Broken(f"{promise.what} of {driver.name} raised nothing", [driver.name])

    # ---- lives -------------------------------------------------------------------------------

    def worker_ended(self, worker: SimWorker) -> None:
        """A worker's process is gone, whatever it did."""
        self.usage.vacate(worker)
        key = self._running.pop(worker.worker_id, None)
        if key is not None:
            self._ended_under[worker.worker_id] = key

    def preempted(self, worker: bytes) -> None:
        """A worker's end was wanted by others: what it ran may start once more."""
        key = self._ended_under.get(worker)
        if key is not None:
            self.kept[key].excused += 1
            self.count("preempted")

    def driver_ended(self, driver: SimDriver) -> None:
        """Nobody waits for what it submitted."""
        for promise in self.kept.values():
            if promise.driver == driver.name and not promise.outcome:
                promise.outcome = "driver gone"

    def open(self) -> list[Promise]:
        """What has no outcome yet."""
        return [promise for promise in self.kept.values() if not promise.outcome]

    def check_all_kept(self, waited_s: float) -> None:
        """Everything submitted has ended, one way or another."""
        jobs = self.jobs.open()
        if jobs:
            raise Broken(
                f"{len(jobs)} jobs are not done {waited_s:.0f} s after the last fault: "
                f"{'; '.join(jobs[:3])}",
                ["head"],
            )
        left = self.open()
        if left:
            one = left[0]
            raise Broken(
                f"{len(left)} of {len(self.kept)} tasks and calls have no outcome {waited_s:.0f} s "
                f"after the last fault; the first is {one.what} of {one.driver}, submitted at "
                f"{one.since:.3f} s, started {one.starts} times ({', '.join(one.ran_on)})",
                [one.driver, *one.ran_on],
            )

    # ---- state store -----------------------------------------------------------------------

    def _promise(self, driver: SimDriver, number: int, promise: Promise) -> None:
        self.kept[driver.name, number] = promise
        self.count("promised")

    def _started(self, worker: SimWorker, owner: bytes, number: int) -> Promise | None:
        key = (self._world.name_of(owner), number)
        promise = self.kept.get(key)
        if promise is None:
            return None
        promise.starts += 1
        promise.ran_on.append(worker.name)
        self._running[worker.worker_id] = key
        if 0 <= promise.retries < promise.starts - 1 - promise.excused:
            raise Broken(
                f"{promise.what} of {promise.driver} may run {promise.retries + 1} times and was "
                f"started {promise.starts} times: on {', '.join(promise.ran_on)}",
                [promise.driver, *promise.ran_on],
            )
        return promise

    def _outcome(self, driver: SimDriver, number: int, outcome: str) -> Promise:
        promise = self.kept[driver.name, number]
        if promise.outcome:
            raise Broken(
                f"{promise.what} of {driver.name} ended as {promise.outcome}, and then as "
                f"{outcome}",
                [driver.name, *promise.ran_on],
            )
        promise.outcome = outcome
        self.count(outcome)
        return promise

    def count(self, what: str) -> None:
        """One more of these, for the summary."""
        self.counts[what] = self.counts.get(what, 0) + 1


def _work(payload: object) -> Work:
    assert isinstance(payload, bytes)
    return msgspec.msgpack.decode(payload, type=Work)
