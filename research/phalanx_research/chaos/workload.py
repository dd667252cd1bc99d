"""The work of simulated drivers: tasks, actors with calls, and placement groups with tasks in
them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from phalanx.errors import JobCommandError, PhalanxError
from phalanx.model.ids import GangId, GroupId
from phalanx.owner.actors.client import ActorClient
from phalanx.owner.tasks.records import ClassKey, FunctionRecord, Template
from phalanx.protocol.actor_creation import Creation
from phalanx.protocol.requests.actors import ActorSpec, KillActor
from phalanx.protocol.requests.gangs import CreateGang
from phalanx.protocol.requests.groups import CreateGroup, RemoveGroup
from phalanx.protocol.requests.queues import CreateQueue, QueueFields, UpdateQueue
from phalanx_research.chaos.cluster import Cluster
from phalanx_research.chaos.driver import SimDriver
from phalanx_research.chaos.history import History
from phalanx_research.chaos.job_program import JobProgram
from phalanx_research.chaos.node import SimNode
from phalanx_research.chaos.object_program import ObjectProgram
from phalanx_research.chaos.options import Options
from phalanx_research.chaos.sweep_program import SweepProgram
from phalanx_research.chaos.work import DIES, RAISES, RETURNS, Work

HOLD_S = 3.0
"""The most seconds for which a program keeps groups and actors after their last work was
submitted.
"""


class Program:
    """The work of one driver, drawn from the seed."""

    def __init__(
        self,
        options: Options,
        history: History,
        cluster: Cluster,
        node: SimNode,
        driver: SimDriver,
        rng: random.Random,
    ) -> None:
        """`node` is the driver's node."""
        self._options = options
        self._history = history
        self._cluster = cluster
        self._node = node
        self.driver = driver
        self._rng = rng
        self._queue_rng = driver.host.kernel.rng(f"queues of {driver.name}")
        self._functions = [
            FunctionRecord(b"f%d" % i, f"f{i}", b"") for i in range(rng.randint(1, 4))
        ]
        self._queues: set[str] = set()
        """The queues of which this program knows. It uses no other queues."""
        self._groups: list[GroupId] = []
        """The groups that the program has not removed yet."""
        self._actors: list[ActorClient] = []
        self.objects: ObjectProgram | None = None
        self.is_over = False
        self._planned = 0
        driver.on_ready = self._begin

    # ---- the plan ----------------------------------------------------------------------------

    def _begin(self) -> None:
        options, rng = self._options, self._rng
        left_s = max(options.chaos_s - self.driver.host.kernel.now, 0.0)
        share = options.drivers
        plans = [(options.tasks, self._task), (options.actors, self._actor)]
        plans += [(options.groups, self._group), (options.gangs, self._gang)]
        for number, queue in enumerate(options.queues):
            fields = QueueFields(weight=int(queue["weight"]), **options.quotas[number])
            if "CPU" in queue:
                fields.capability = {"CPU": queue["CPU"]}
            request = CreateQueue(f"q{number}", fields)
            self.driver.owner.requests.call_async(request, partial(self._created, request.name))
        for _ in range(options.queue_changes if options.queues else 0):
            self._later(self._queue_rng.uniform(0.0, left_s), self._change_queue)
        JobProgram(options, self.driver, self._queue_names(), self._later).plan(left_s)
        SweepProgram(options, self.driver, self._queue_names(), self._later).plan(left_s)
        self.objects = ObjectProgram(options, self.driver, self._later)
        self.objects.plan(left_s)
        for count, what in plans:
            for _ in range(-(-count // share)):
                self._later(rng.uniform(0.0, left_s), what)

    def _later(self, delay_s: float, action: Any) -> None:
        self._planned += 1

        def alive() -> None:
            self._planned -= 1
            if not self.is_over:
                self.driver.do(action)

        self.driver.host.later(delay_s, alive)

    @property
    def is_idle(self) -> bool:
        """Whether the program will submit nothing more."""
        return not self.driver.is_alive or not self._planned

    def _resources(self) -> tuple[tuple[str, float], ...]:
        """Draw a request that the largest node could hold if it were empty."""
        rng = self._rng
        node = rng.choice(self._options.nodes)
        asked = {"CPU": rng.choice([1.0, 1.0, 0.5, 0.0, node["CPU"]])}
        for name in node:
            if name != "CPU" and rng.random() < 0.5:
                asked[name] = rng.choice([1.0, 0.5, 0.25, node[name]])
        return tuple(sorted((k, v) for k, v in asked.items() if v))

    def _work(self, mean_s: float) -> Work:
        ends = self._rng.choices((RETURNS, RAISES, DIES), (0.85, 0.1, 0.05))[0]
        seconds = min(self._rng.expovariate(1.0 / mean_s), 8.0 * mean_s)
        return Work(seconds=seconds, ends=ends)

    def _queue_names(self) -> list[str]:
        return ["default", *(f"q{number}" for number in range(len(self._options.queues)))]

    def _created(self, queue: str, read: Callable[[], object]) -> None:
        try:
            read()
        except JobCommandError:  # another driver has already created the queue
            pass
        except PhalanxError:
            return
        self._queues.add(queue)

    def _change_queue(self) -> None:
        name = self._queue_rng.choice(self._queue_names()[1:])
        fields = QueueFields(weight=self._queue_rng.choice((1, 3, 9)))
        self.driver.owner.requests.notify(UpdateQueue(name, fields))

    # ---- tasks -------------------------------------------------------------------------------

    def _task(self) -> None:
        rng = self._rng
        strategy: dict[str, Any] = {}
        draw = rng.random()
        if draw < 0.2:
            strategy = {"name": "SPREAD"}
        elif draw < 0.3:
            view = self._node.spilling
            nodes = [n for n in self._cluster.living_nodes() if not view.why_closed(n.node_id)]
            soft = rng.random() < 0.5
            strategy = {"node_id": rng.choice(nodes).node_id, "soft": soft} if nodes else {}
        burst = rng.choice((1, 1, 1, 5, 12))
        self._submit(strategy, self._resources(), burst)

    def _submit(
        self, strategy: dict[str, Any], resources: tuple[tuple[str, float], ...], count: int
    ) -> None:
        rng = self._rng
        function = rng.choice(self._functions)
        queue = ""
        if self._options.has_tasks_in_queues:
            queue = self._queue_rng.choice(("", *self._queue_names()))
            queue = queue if queue in self._queues else ""
        template = Template(
            function=function,
            key=ClassKey(
                resources=resources,
                environment=b"",
                strategy=msgspec.json.encode(strategy) if strategy else b"",
                queue=queue,
                priority=rng.choice((0, 0, 0, 5)),
                single=False,
            ),
            name=function.name,
            returns=1,
            max_retries=rng.choice((0, 0, 1, 3, -1)),
            retry_exceptions=rng.random() < 0.5,
        )
        if "node_id" in strategy and not strategy["soft"]:
            node = self._cluster.node_named(strategy["node_id"])
            if node is None or any(v > node.total.get(k, 0) for k, v in resources):
                return  # the task could never run there
        for _ in range(count):
            work = self._work(self._options.task_s)
            if template.max_retries < 0 and work.ends != RETURNS:
                work = Work(seconds=work.seconds)  # otherwise the task would be retried forever
            self.driver.submit(template, work)

    # ---- actors ------------------------------------------------------------------------------

    def _actor(self) -> None:
        rng, driver = self._rng, self.driver
        number = next(driver.owner.numbers)
        resources = dict(self._resources())
        class_name = f"actor {number} of {driver.name}"
        creation = Creation(b"", b"", class_name, b"", [], 1, {}, False, False)
        spec = ActorSpec(
            actor=driver.process_id[:12] + number.to_bytes(4, "big"),
            class_name=class_name,
            name=f"a{number}" if rng.random() < 0.3 else "",
            namespace=driver.name,
            detached=rng.random() < 0.2,
            max_restarts=rng.choice((0, 0, 1, 3, -1)),
            place=resources,
            hold=resources if rng.random() < 0.7 else {},
            strategy={"name": "SPREAD"} if rng.random() < 0.3 else {},
        )
        client = driver.create(creation, spec)
        self._actors.append(client)
        last_s = 0.0
        for _ in range(rng.randint(0, 8)):
            delay_s = rng.uniform(0.0, HOLD_S)
            last_s = max(last_s, delay_s)
            self._later(delay_s, partial(self._call, client))
        self._later(last_s + rng.uniform(0.0, HOLD_S), partial(self._end_actor, client))

    def _call(self, client: ActorClient) -> None:
        work = self._work(self._options.task_s)
        self.driver.call(client, work, self._rng.choice((0, 0, 2)))

    def _end_actor(self, client: ActorClient) -> None:
        """Kill an actor once its calls have ended, so that no call is lost by this."""
        if client.pending:
            self._later(0.5, partial(self._end_actor, client))
            return
        self.driver.owner.requests.notify(KillActor(client.actor, no_restart=True))

    # ---- groups ------------------------------------------------------------------------------

    def _group(self) -> None:
        rng, driver = self._rng, self.driver
        group = GroupId(f"{driver.name}{next(driver.owner.numbers):04}g".encode().ljust(18, b" "))
        strategy = rng.choice(("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"))
        bundles = [dict(self._resources()) or {"CPU": 1.0} for _ in range(rng.randint(1, 3))]
        self._groups.append(group)
        self._history.groups.add(group)

        def created(answer: Callable[[], None]) -> None:
            try:
                answer()
            except PhalanxError:
                self._groups.remove(group)
                self._history.groups.discard(group)
                return
            for index, bundle in enumerate(bundles):
                if rng.random() < 0.7:
                    inside = {"group": group.hex(), "bundle": rng.choice((index, -1))}
                    resources = tuple(sorted(bundle.items()))
                    count = rng.choice((1, 3))
                    self._later(0.0, partial(self._submit, inside, resources, count))
            self._later(rng.uniform(0.0, 3 * HOLD_S), partial(self._end_group, group))

        request = CreateGroup(group, bundles, strategy, name="", detached=False, selectors=[])
        driver.owner.requests.call_async(request, created)

    def _end_group(self, group: GroupId) -> None:
        if group in self._groups:
            self._groups.remove(group)
            self._history.groups.discard(group)
            self._history.removed_groups.add(group)
            self.driver.owner.requests.notify(RemoveGroup(group))

    # ---- gangs -------------------------------------------------------------------------------

    def _gang(self) -> None:
        """Submit a gang in a queue. The head refuses a gang that the present cluster could never
        hold.
        """
        rng, driver = self._rng, self.driver
        needs = dict(self._resources()) or {"CPU": 1.0}
        members = min(rng.randint(2, 4), _hold(self._options.nodes, needs))
        min_members = rng.choice((members, members, rng.randint(1, members)))
        group = GroupId(f"{driver.name}{next(driver.owner.numbers):04}t".encode().ljust(18, b" "))
        gang_id = GangId(group)

        def created(answer: Callable[[], str]) -> None:
            try:
                answer()
            except PhalanxError:
                return
            self._start_gang(gang_id, members, min_members, needs)

        request = CreateGang(
            gang_id,
            name="gang",
            queue=rng.choice(self._queue_names()),
            priority=rng.choice((0, 0, 5)),
            needs=[needs] * members,
            min_members=min_members,
            grace_s=rng.choice((0.0, 0.1, 1.0)),
        )
        driver.owner.requests.call_async(request, created)

    def _start_gang(
        self, gang_id: GangId, members: int, min_members: int, needs: dict[str, float]
    ) -> None:
        rng = self._rng
        function = rng.choice(self._functions)
        retries = rng.choice((0, 1, 3))
        templates, works = [], []
        for index in range(members):
            strategy = {"group": gang_id.hex(), "bundle": index, "capture": False}
            key = ClassKey(
                resources=tuple(sorted(needs.items())),
                environment=b"",
                strategy=msgspec.json.encode(strategy),
                queue="",
                priority=0,
                single=False,
                once=True,
            )
            templates.append(
                Template(function=function, key=key, name="member", returns=1, max_retries=retries)
            )
            works.append(self._work(self._options.task_s))
        work = Work(seconds=0.0, members=works)
        self.driver.start_gang(gang_id, templates, min_members, work)

    # ---- the end -----------------------------------------------------------------------------

    def end(self) -> None:
        """Give back everything that the program holds. This is called when all outcomes are
        known.
        """
        self.is_over = True
        if self.objects is None:
            return  # the group was never created
        self.objects.release()
        for client in (*self._actors, *self.objects.actors):
            self.driver.owner.requests.notify(KillActor(client.actor, no_restart=True))
        for group in list(self._groups):
            self._end_group(group)


def _hold(nodes: tuple[dict[str, float], ...], needs: dict[str, float]) -> int:
    """Return how many members with this request all nodes together could hold if they were empty.
    Until the head notices that a machine has crashed, it counts the machine, and may accept gangs
    that later do not fit.
    """
    return sum(
        min(int(node.get(name, 0.0) / amount) for name, amount in needs.items()) for node in nodes
    )
