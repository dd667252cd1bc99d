"""Random events on a cluster: work is submitted, ends, fails and is evicted, and nodes die."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.world.cluster import World
from tests.world.node import WorkingNode
from tests.world.store import Journal

from phalanx.errors import PhalanxError
from phalanx.model.jobs.arrays import ArraySpec
from phalanx.model.jobs.spec import Process, TaskGroup, Template
from phalanx.model.jobs.timing import Timing
from phalanx.protocol.requests.actors import ActorSpec, RegisterActor
from phalanx.protocol.requests.cluster import DrainNode, UndrainNode
from phalanx.protocol.requests.gangs import SetRules
from phalanx.protocol.requests.jobs import Command, CommandJob, DeleteJob, ListJobs
from phalanx.protocol.requests.queues import QueueFields, UpdateQueue

QUEUES = ("default", "team", "small")
COMMANDS: tuple[Command, ...] = ("cancel", "suspend", "resume", "hold", "release", "requeue")
RULES = """\
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
MAX_NODES = 5


class History(World):
    """A cluster whose head writes to a store. The seed determines the events."""

    node_class = WorkingNode

    def __init__(self, seed: int) -> None:
        super().__init__(journal=Journal(), is_alone=False, time_s=1_000.0)
        self.drawn = random.Random(seed)
        self._number = 0
        for _ in range(3):
            self.join_new()
        self.queue("team", weight=3)
        self.queue("small", capability={"CPU": 3.0})
        self.ask(SetRules(RULES))
        self.happened: list[str] = []

    def step(self) -> None:
        """Let one random event happen, and some time pass."""
        chances: list[tuple[int, Callable[[], None]]] = [
            (6, self.submit), (2, self.submit_array), (6, self.end_member), (2, self.fail_member),
            (3, self.command), (1, self.delete), (1, self.node_dies), (1, self.join_new),
            (1, self.drain), (1, self.undrain), (1, self.change_queue), (1, self.head_dies),
            (1, self.wait_long), (2, self.make_actor), (1, self.actor_dies),
        ]  # fmt: skip
        weights, acts = zip(*chances, strict=True)
        [act] = self.drawn.choices(acts, weights)
        self.happened.append(act.__name__)
        with suppress(PhalanxError):  # a command may not fit the state of what it names
            act()
        self.rounds(self.drawn.randint(0, 4))

    def _name(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    def submit(self) -> None:
        """Submit a job. It may need only some of its members in order to start."""
        members, rng = self.drawn.randint(1, 4), self.drawn
        self._submit(
            self._name("job"),
            members,
            min_available=rng.randint(1, members),
            max_retry=rng.choice((0, 1, 3)),
            timing=Timing(limit_s=rng.choice((None, None, 20.0, 600.0))),
        )

    def submit_array(self) -> None:
        last = self.drawn.randint(1, 9)
        limit = self.drawn.choice((None, 2))
        self._submit(self._name("array"), 1, array=ArraySpec(ranges=((0, last, 1),), limit=limit))

    def _submit(self, name: str, members: int, **fields: Any) -> None:
        rng = self.drawn
        needs = (("CPU", float(rng.randint(1, 2))), ("GPU", float(rng.choice((0, 0, 1, 2)))))
        template = Template(
            processes=(Process(command=("true",), requests=needs),),
            restart=rng.choice(("Never", "OnFailure")),
        )
        group = TaskGroup(name="w", replicas=members, template=template)
        queue, user = rng.choice(QUEUES), rng.choice(("ana", "bo"))
        self.job(group, name=name, queue=queue, priority=rng.randint(0, 3), user=user, **fields)

    def end_member(self) -> None:
        self._end(0)

    def fail_member(self) -> None:
        self._end(1)

    def _end(self, code: int) -> None:
        if self.running:
            self.end(self.drawn.choice(sorted(self.running)), code)

    def _job(self) -> str:
        return str(self.drawn.choice([row.name for row in self.ask(ListJobs())] or ["none"]))

    def command(self) -> None:
        """Give a random command to a job."""
        self.ask(CommandJob(self._job(), self.drawn.choice(COMMANDS)))

    def delete(self) -> None:
        self.ask(DeleteJob(self._job()))

    def join_new(self) -> None:
        if len(self.nodes) < MAX_NODES:
            name = self._name("n")
            self.add(name, CPU=float(self.drawn.randint(2, 8)), GPU=float(self.drawn.randint(0, 4)))

    def node_dies(self) -> None:
        """Let a node die with all that runs on it."""
        if len(self.nodes) > 1:
            self.kill(self.drawn.choice(sorted(self.nodes)))

    def drain(self) -> None:
        self.ask(DrainNode(self.drawn.choice(sorted(self.nodes)), "its fans"))

    def undrain(self) -> None:
        self.ask(UndrainNode(self.drawn.choice(sorted(self.nodes))))

    def change_queue(self) -> None:
        """Change the limit of a queue."""
        cap = {"CPU": float(self.drawn.randint(1, 6))}
        self.ask(UpdateQueue("small", QueueFields(capability=cap)))

    def head_dies(self) -> None:
        """Let the head die. The next head reads what was written."""
        self.restart()

    def make_actor(self) -> None:
        """Let a program make an actor, whose constructor may not have returned yet."""
        rng = self.drawn
        name = self._name("actor").encode().ljust(16, b"-")
        spec = ActorSpec(
            actor=name, class_name=rng.choice(("Trainer", "Loader")), detached=True,
            max_restarts=rng.choice((0, 1, -1)),
        )  # fmt: skip
        self.ask(RegisterActor(spec, b"c", []))
        self.rounds(2)
        record = self.head.actor_table.get(name)
        if record is not None and record.worker and rng.random() < 0.8:
            self.head.actor_table.ready(name, record.worker, rng.randint(2, 9_999))

    def actor_dies(self) -> None:
        """Kill an actor, or let its process crash."""
        found = [one for one in self.head.actor_table.all() if one.state != "DEAD"]
        if not found:
            return
        one = self.drawn.choice(found)
        if one.worker and self.drawn.random() < 0.5:
            self.head.actor_table.worker_died(one.actor, one.worker, "signal 9")
        else:
            self.head.actor_table.kill(one.actor, no_restart=True)

    def wait_long(self) -> None:
        """Let half a minute pass."""
        self.heal(30)
