"""A head and its nodes: the world of most tests without I/O."""

from __future__ import annotations

import random
from typing import Any, TypeVar

from tests.present import present
from tests.world.clock import ManualClock
from tests.world.head import ask, make_head
from tests.world.network import Letter, Network, Party
from tests.world.node import Node
from tests.world.store import Journal, Ledger

from phalanx.api.new_manifests import job_manifest
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.gang_scheduler import GangScheduler
from phalanx.head.gangs.member_states import SHOWN
from phalanx.head.head import NOTHING_STORED
from phalanx.head.nodes.liveness import HealthLimits
from phalanx.head.state_store import read_state
from phalanx.model.ids import GangId, GroupId, MemberId
from phalanx.model.jobs.spec import JobSpec, TaskGroup
from phalanx.protocol.bundle_messages import StartMember
from phalanx.protocol.membership_messages import Join
from phalanx.protocol.requests.gangs import CreateGang
from phalanx.protocol.requests.jobs import ApplyManifests
from phalanx.protocol.requests.queues import CreateQueue, QueueFields
from phalanx.protocol.requests.request import Request

R = TypeVar("R")
LIMITS = HealthLimits(period_s=1.0, misses=5, restored_s=5.0)
REST_ROUNDS = 60
"""Rounds after which nothing changes any more, in every world."""


def gang_id(name: str) -> GangId:
    """Return the id of the gang that `World.gang` creates under this name."""
    return GangId(GroupId(name.encode().ljust(18, b"-")))


def group_name(group: bytes) -> str:
    """Return the name from which `gang_id` made an id."""
    return group.decode(errors="replace").rstrip("-")


class World:
    """A head, its nodes, and the messages between them, on one clock.

    With `is_alone` the head lives in its only node's process, as on a cluster of one machine: nodes
    are never silent, and those of an earlier head do not come back by themselves.
    """

    name = "head"
    node_class = Node

    def __init__(
        self,
        *,
        journal: Journal | None = None,
        ledger: Ledger | None = None,
        is_alone: bool = True,
        is_instant: bool = False,
        keeps_defects: bool = False,
        time_s: float = 100.0,
        **options: Any,
    ) -> None:
        """`keeps_defects`: internal errors of the head are recorded and not raised. `options`:
        those of Head.
        """
        self.internal_errors: list[Exception] = []
        if keeps_defects:
            options["report_defect"] = self.internal_errors.append
        self.clock = ManualClock(time_s)
        self.network = Network(is_instant=is_instant)
        self.nodes: dict[str, Any] = {}
        self._journal = journal
        self._ledger = ledger
        self.is_alone = is_alone
        self.rng = random.Random(0)
        self.options: dict[str, Any] = {"limits": LIMITS, "boot": "this one", **options}
        self.start()

    @property
    def now(self) -> float:
        return self.clock.time_s

    @now.setter
    def now(self, time_s: float) -> None:
        self.clock.time_s = time_s

    # ---- the head ----------------------------------------------------------------------------

    def start(self) -> None:
        """Start the first or the next head, from what is written."""
        stored = NOTHING_STORED if self._journal is None else read_state(self.journal.storage)
        self.head = make_head(
            self._send,
            self.clock,
            rng=self.rng,
            journal=self._journal,
            stored=stored,
            is_alone=self.is_alone,
            ledger=self._ledger,
            **self.options,
        )

    def restart(self) -> None:
        """Kill the head: what it had not written is lost, and so are the messages on their way.
        Start the next head, which the nodes join.
        """
        self.network.on_the_way.clear()
        if self._journal is not None:
            self._journal = self._journal.next_head()
        if self._ledger is not None:
            self._ledger.waiting.clear()
        for node in self.nodes.values():
            node.orders.clear()
        self.start()
        self.write()
        if not self.is_alone:
            for node in self.nodes.values():
                self.join(node)

    @property
    def journal(self) -> Journal:
        return present(self._journal)

    @property
    def ledger(self) -> Ledger:
        return present(self._ledger)

    @property
    def scheduler(self) -> GangScheduler:
        return self.head.gang_scheduler

    def _send(self, prefix: bytes, message: Any) -> None:
        node = self.node_of(prefix)
        if node is not None:
            self.network.send(self, node, message)

    def node_of(self, prefix: bytes) -> Any:
        """Return the node with this prefix; None if it is dead."""
        return next((node for node in self.nodes.values() if node.prefix == prefix), None)

    def hear(self, sender: Party | str, message: Any) -> None:
        """Let a message of a node reach the head."""
        node = self.nodes.get(sender if isinstance(sender, str) else sender.name)
        if node is not None:
            self.head.on_message(node.prefix, message)

    def write(self) -> None:
        """Let the journal write all that it has."""
        if self._journal is not None:
            self._journal.write()

    def ask(self, request: Request[R]) -> Any:
        """Return the head's answer to a process. Raises the error of the head."""
        return ask(self.head, request)

    # ---- nodes -------------------------------------------------------------------------------

    def add(
        self,
        name: str,
        labels: Any = None,
        *,
        prefix: Any = b"",
        **total: float,
    ) -> Any:
        """Add a node, which joins the head. By default it has one CPU."""
        node = self.node_class(self, name, total or {"CPU": 1.0}, labels, prefix)
        self.nodes[name] = node
        self.join(node)
        return node

    def join(self, node: Any) -> None:
        """Let a node join the head, for the first time or again, with the bundles that it holds."""
        if self.is_alone:
            self.head.join_alone(node.row())
        else:
            join = Join(node.row(), "host", node.epoch, {}, node.inventory())
            self.head.on_message(node.prefix, join)
            record = self.head.nodes.get(node.name)
            node.epoch = node.epoch if record is None else record.epoch
        self.report(node)

    def rejoin(self, node: Any) -> None:
        """Break the connection to a node, and let the node join again with all bundles that it
        held.
        """
        self.scheduler.node_joined(present(self.head.nodes.of_prefix(node.prefix)))
        self.rounds(1)

    def report(self, node: Any) -> None:
        self.head.on_message(node.prefix, node.report())

    def kill(self, name: str) -> None:
        """Kill a node's process, and lose the messages on their way to or from it."""
        if name in self.nodes:
            self.network.cut(self.nodes.pop(name))
        self.head.nodes.leave(name, "its process ended")

    # ---- messages ----------------------------------------------------------------------------

    @property
    def on_the_way(self) -> list[Letter]:
        return self.network.on_the_way

    @on_the_way.setter
    def on_the_way(self, letters: list[Letter]) -> None:
        self.network.on_the_way = letters

    def deliver(self, letter: Letter) -> None:
        """Deliver a message. A node then reports its resources."""
        if letter.receiver is not self and letter.receiver.name not in self.nodes:
            return
        self.network.deliver(letter)
        if letter.receiver is not self:
            self.report(letter.receiver)

    def run(self) -> list[type[Any]]:
        """Deliver everything in order; return the types of the messages that were for nodes."""
        heard = []
        while self.on_the_way:
            letter = self.on_the_way.pop(0)
            self.deliver(letter)
            if letter.receiver is not self:
                heard.append(type(letter.message))
        return heard

    @property
    def told(self) -> list[tuple[str, Any]]:
        """Return (node, message) of all messages to nodes: first those that have arrived and were
        recorded, then those on their way.
        """
        heard = [(node.name, order) for node in self.nodes.values() for order in node.orders]
        return heard + [
            (one.receiver.name, one.message) for one in self.on_the_way if one.receiver is not self
        ]

    @property
    def orders(self) -> list[Any]:
        """Return all orders that the nodes have recorded."""
        return [order for node in self.nodes.values() for order in node.orders]

    def forget(self) -> None:
        """Delete the recorded orders of the nodes, and lose the messages on their way."""
        self.on_the_way.clear()
        for node in self.nodes.values():
            node.orders.clear()

    def started(self) -> list[StartMember]:
        """Return all recorded orders to start members."""
        return [order for order in self.orders if isinstance(order, StartMember)]

    # ---- time --------------------------------------------------------------------------------

    def tick(self) -> None:
        """Let head and nodes do what is due, and let nodes report."""
        for node in list(self.nodes.values()):
            node.tick()
            self.report(node)
        self.head.on_tick(self.now)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.tick()

    def cycle(self) -> None:
        """Run a cycle, if one is due."""
        self.head.on_round(self.now)

    def cycles(self, count: int = 1) -> None:
        """Let five seconds pass and run a cycle, `count` times, without delivering anything."""
        for _ in range(count):
            self.now += 5.0
            self.cycle()

    def rounds(self, count: int = REST_ROUNDS) -> None:
        """Run rounds of a second each: a cycle if one is due, then deliver every message."""
        for _ in range(count):
            self.now += 1.0
            self.head.on_tick(self.now)
            self.cycle()
            self.run()
            for node in list(self.nodes.values()):
                self.report(node)

    def heal(self, seconds: int = 30) -> None:
        """Let time pass in which nothing is lost, and deliver every message."""
        for _ in range(seconds):
            self.pass_time(1.0)
            self.cycle()
            self.run()

    # ---- work --------------------------------------------------------------------------------

    def queue(self, name: str, weight: int = 1, **fields: Any) -> None:
        self.ask(CreateQueue(name, QueueFields(weight=weight, **fields)))

    def gang(
        self, name: str = "g", members: int = 1, least: int | None = None, cpus: float = 1.0,
        queue: str = "default", **fields: Any,
    ) -> Gang:  # fmt: skip
        """Create a gang. All members have to start together unless `least` is given."""
        needs = [{"CPU": float(cpus)}] * members
        least = members if least is None else least
        self.ask(CreateGang(gang_id(name), name, queue, needs, min_members=least, **fields))
        return self.scheduler.registry.gangs[gang_id(name)]

    def job(self, *groups: TaskGroup, name: str = "job", **fields: Any) -> None:
        self.ask(ApplyManifests([job_manifest(JobSpec(name=name, groups=groups, **fields))]))

    def gang_of(self, job: str = "job") -> Any:
        """Return the gang of a job that is not over."""
        return self.scheduler.jobs.gang_of(f"default/{job}")

    def evict(self, members: list[int], gang: Gang | None = None, claimant: str = "") -> None:
        """Evict members of a gang as the scheduler does."""
        gang = gang or self.scheduler.registry.gangs[gang_id("g")]
        self.scheduler.applier.evict(gang, members, "preempt", claimant)

    def states(self, gang: Gang | None = None) -> list[str]:
        """Return the states of a gang's members as people see them."""
        gang = gang or self.scheduler.registry.gangs[gang_id("g")]
        return [SHOWN[member.state] for member in gang.members]

    def holding(self) -> list[str]:
        """Return the names of the gangs of `World.gang` that hold places."""
        return sorted({group_name(group) for group, _ in self.held() if group.isascii()})

    @property
    def preempted(self) -> list[str]:
        """Return the names of the gangs whose members were warned by their nodes."""
        return [group_name(group) for node in self.nodes.values() for group in node.warned]

    def end(self, member: MemberId, code: int) -> None:
        """End a running member. The head learns of it immediately."""
        for node in self.nodes.values():
            if member in node.running:
                order = node.running[member]
                for news in node.ended(*member, order.attempt, code):
                    self.hear(node, news)

    # ---- what nodes hold and run -------------------------------------------------------------

    @property
    def running(self) -> dict[MemberId, StartMember]:
        """Return the members that run on working nodes, with the orders that started them."""
        return {key: order for node in self.nodes.values() for key, order in node.running.items()}

    def held(self) -> dict[Any, list[tuple[str, bool]]]:
        """Return the living nodes that hold each bundle, by (group, index), and whether the bundle
        is committed there.
        """
        found: dict[Any, list[tuple[str, bool]]] = {}
        for node in self.nodes.values():
            for group, index, _, is_committed in node.inventory().held:
                found.setdefault((group, index), []).append((node.name, is_committed))
        return found

    def check_settled(self) -> None:
        """Check that nodes hold exactly the bundles that members of gangs have."""
        believed = {
            (gang.gang_id, index): [(member.node, True)]
            for gang in self.scheduler.registry.gangs.values()
            for index, member in enumerate(gang.members)
            if member.node
        }
        held = self.held()
        assert held == believed, f"held: {held}, believed: {believed}"


def one_node(cpus: float, **options: Any) -> World:
    """Return a head with one node, `n0`."""
    world = World(**options)
    world.add("n0", CPU=float(cpus))
    return world


def joined_world() -> World:
    """Return a head with a journal, which nodes join over the network."""
    return World(journal=Journal(), is_alone=False)


def stored_world() -> World:
    """Return a head whose journal writes when the test says so."""
    return World(journal=Journal(is_slow=True))
