"""A head and two nodes with their real machines for members. A command ends when the test says
so.
"""

from __future__ import annotations

import random
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import msgspec
from tests.fuzz.world import NODES, TOTAL, Answer
from tests.world.clock import ManualClock
from tests.world.head import make_head

from phalanx.api.new_manifests import job_manifest
from phalanx.head.gangs.interface import Held
from phalanx.head.jobs.array_tasks import ArrayTasks
from phalanx.head.state_store import read_state
from phalanx.manifests.arrays import read_array
from phalanx.model.ids import GangId, MemberId
from phalanx.model.jobs.records import JobRecord
from phalanx.model.jobs.spec import JobSpec, Policy, Process, TaskGroup, Template
from phalanx.node.bundle_table import BundleTable
from phalanx.node.job_members import JobMembers
from phalanx.node.member_effects import CommandEnd, MemberEffects
from phalanx.node.usage import NoUsageMeter
from phalanx.protocol.bundle_messages import (
    BundleInventory,
    BundlesGone,
    CommitBundles,
    Committed,
    EndMember,
    ExtendRun,
    GiveBackBundles,
    PrepareBundles,
    Prepared,
    StartMember,
    StopRun,
)
from phalanx.protocol.cluster_messages import ViewRow
from phalanx.protocol.membership_messages import Join, Joined
from phalanx.protocol.report_messages import NodeReport
from phalanx.protocol.requests.jobs import ApplyManifests, CommandJob, ListElements, ListJobs
from phalanx.protocol.requests.request import Request, Role, encode_request, reply_type
from phalanx.scheduler.devices.instances import NodeResources
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx_research.chaos.members import NoPackages

NAME_OF = {prefix: node_id for node_id, prefix in NODES.items()}


class Rows:
    """A store that writes immediately and is never full."""

    shortage, is_stalled = "", False

    def __init__(self) -> None:
        self.tables: dict[str, dict[bytes, bytes]] = defaultdict(dict)

    def record(self, changes, durable=None):
        for (table, key), value in changes.items():
            if value is None:
                self.tables[table].pop(key, None)
            else:
                self.tables[table][key] = value
        if durable is not None:
            durable()

    def flush(self):
        pass

    def load(self, table):
        return list(self.tables[table].items())

    def get(self, table, key):
        return self.tables[table].get(key)


class PrefixWorld:
    """A head, and the members that its nodes hold. Nodes are named by the prefixes of their ids."""

    def __init__(self) -> None:
        self.clock = ManualClock(1000.0)
        self.rows = Rows()
        self.internal_errors: list[Exception] = []
        self.box: list[tuple[bytes, Any]] = []
        self.held: dict[bytes, dict[MemberId, dict[str, float]]] = {p: {} for p in NODES.values()}
        self.rng = random.Random(1)
        self.epochs: dict[bytes, int] = {}
        self.attempts: dict[MemberId, int] = {}
        self.running: dict[MemberId, StartMember] = {}
        self.begin()

    @property
    def now(self) -> float:
        return self.clock.time_s

    @now.setter
    def now(self, time_s: float) -> None:
        self.clock.time_s = time_s

    def begin(self) -> None:
        """Start the first or the next head."""
        self.control = make_head(
            lambda prefix, message: self.box.append((prefix, message)),
            self.clock,
            rng=self.rng,
            journal=self.rows,
            stored=read_state(self.rows),
            report_defect=self.internal_errors.append,
        )
        for node_id, prefix in NODES.items():
            self.join(node_id, prefix)

    def join(self, node_id: str, prefix: bytes) -> None:
        held: list[Held] = [(*place, self.attempts[place], True) for place in self.held[prefix]]
        self.hear(
            prefix,
            Join(
                self.row(node_id, prefix),
                "host",
                self.epochs.get(prefix, 0),
                {},
                BundleInventory(held, {}),
            ),
        )
        self.report(prefix)

    def restart(self) -> None:
        """End the head. Another head reads what the first one wrote."""
        self.box.clear()
        self.begin()

    def row(self, node_id: str, prefix: bytes) -> ViewRow:
        return ViewRow(node_id, prefix, "10.0.0.1", 7, "ALIVE", TOTAL, dict(TOTAL), labels={})

    # ---- asking ------------------------------------------------------------------------------

    def ask(
        self, request: Request[Any], role: Role | None = None, process: bytes = bytes(16)
    ) -> Answer:
        """Send a request in a role that may send it."""
        return self.ask_raw(type(request), encode_request(request), role, process)

    def ask_raw(self, kind, body, role=None, process=bytes(16)) -> Answer:
        role = role or kind.asked_by[0]
        answer = Answer(role, process if role is not Role.VISITOR else b"", b"node-a")
        self.control.answering.handlers_of(kind.kind).answer(kind.kind, body, answer.asker)
        return answer

    # ---- time --------------------------------------------------------------------------------

    def hear(self, prefix: bytes, message: Any) -> None:
        self.control.on_message(prefix, message)

    def report(self, prefix: bytes) -> None:
        free = dict(TOTAL)
        for bundle in self.held[prefix].values():
            for name, amount in bundle.items():
                free[name] = free.get(name, 0.0) - amount
        self.hear(prefix, NodeReport(available=free))


class Node:
    """The machines of one node, and its commands by process."""

    def __init__(self, world: Runs, prefix: bytes) -> None:
        self.world = world
        self.prefix = prefix
        self.resources = NodeResources(TOTAL)
        self.bundles = BundleTable(self.resources)
        self.running: dict[bytes, StartMember] = {}
        self.asked: set[bytes] = set()
        """The commands that were asked to end."""
        self.out: list[Any] = []
        """News that the head has not heard."""
        self.said: list[Any] = []
        """News that the head has heard, the oldest first."""
        self.packages = NoPackages()
        self.members = JobMembers(
            MemberEffects(
                clock=lambda: world.now,
                commands=self,
                files=self,
                memory=SimpleNamespace(above=lambda limits: {}),
                make_unique=world.make_unique,
                usage=NoUsageMeter(),
                note=lambda text, **about: None,
            ),
            self.bundles,
            SimpleNamespace(notify=self.out.append),
        )

    # ---- effects of members

    def run(self, process: bytes, order: StartMember, command: Any, log: str) -> None:
        self.running[process] = order
        self.world.starts[order.job].append((self.prefix, order.start or order.attempt))

    def terminate(self, process: bytes) -> None:
        self.asked.add(process)

    kill = terminate

    def signal(self, process: bytes, number: int, to: str) -> None:
        pass

    def make(self, order: StartMember) -> str:
        return f"/logs/e{order.job.partition('[')[2][:-1]}-w-0.{order.start or order.attempt}.log"

    def give_packages(self, order: StartMember) -> None:
        pass

    def error(self, order: StartMember, limit: int) -> bytes:
        return b""

    def shorten(self, path: str, before: int | None = None) -> None:
        pass

    def is_lost(self, path: str) -> bool:
        return False

    def remove(self, job: str) -> None:
        pass

    def read(self, path: str, offset: int, limit: int) -> tuple[bytes, int, int]:
        return b"", -1, 0

    def earlier_logs(self) -> list[tuple[str, float]]:
        return []

    def most_kept(self) -> int:
        return 0

    def drop(self, path: str) -> None:
        pass

    def size(self, path: str) -> int:
        return 0

    # ---- events

    def end(self, process: bytes, code: int = 0) -> StartMember:
        order = self.running.pop(process)
        if not code and process not in self.asked:
            self.world.good[order.job].append(self.prefix)
        self.members.began(process, 1)
        self.members.exited(process, CommandEnd(code=code))
        self.settle()
        return order

    def settle(self) -> None:
        self.out += [BundlesGone(*key) for key in self.bundles.settle()]

    def does(self, message: Any) -> None:
        match message:
            case PrepareBundles():
                need = {i: ResourceSet.from_mapping(n) for i, n in message.bundles.items()}
                ok = self.bundles.prepare(message.group, message.attempt, need, self.world.now)
                devices: dict[int, Any] = {i: {} for i in need} if ok else {}
                self.out.append(Prepared(message.group, message.attempt, ok, devices))
            case CommitBundles():
                ok = self.bundles.commit(message.group, message.attempt)
                self.out.append(Committed(message.group, message.attempt, ok))
            case GiveBackBundles():
                pools = self.bundles.give_back(message.group, message.attempt, message.indexes)
                if message.warn:
                    self.members.warn_in(pools)
                else:
                    self.members.end_in(pools, "")
                self.settle()
            case StartMember():
                self.members.start(message)
            case ExtendRun():
                self.members.extend(message)
            case StopRun():
                self.members.stop_run(message)
            case EndMember():
                self.members.end(message)


class Runs(PrefixWorld):
    """A head and two nodes. Messages are delivered only by `talk`."""

    def __init__(self) -> None:
        self.starts: dict[str, list[tuple[bytes, int]]] = defaultdict(list)
        """Where each job's command began, and as which attempt."""
        self.good: dict[str, list[bytes]] = defaultdict(list)
        """The nodes on which each job ended well without having been asked to end."""
        self.unique = 0
        self.nodes = {prefix: Node(self, prefix) for prefix in NODES.values()}
        super().__init__()

    def make_unique(self, size: int) -> bytes:
        self.unique += 1
        return self.unique.to_bytes(size, "big")

    def join(self, node_id: str, prefix: bytes) -> None:
        if prefix not in self.nodes:
            return
        node = self.nodes[prefix]
        there = BundleInventory(*msgspec.structs.astuple(node.bundles.inventory()))
        row = self.row(node_id, prefix)
        self.hear(prefix, Join(row, "host", self.epochs.get(prefix, 0), {}, there))
        self.report(prefix)

    def report(self, prefix: bytes) -> None:
        self.held[prefix] = {
            (GangId(group), index): {
                "CPU": sum(pool.resources.to_mapping().get("CPU", 0.0) for pool in pools)
            }
            for group, index, _, _ in self.nodes[prefix].bundles.inventory().held
            if (pools := list(self.nodes[prefix].bundles.pools((group, index))))
        }
        super().report(prefix)

    def node_does(self, prefix: bytes, message: Any) -> None:
        if isinstance(message, Joined):
            self.epochs[prefix] = message.epoch
        elif prefix in self.nodes:
            self.nodes[prefix].does(message)

    # ---- time

    def talk(self, seconds: float = 0.01, turns: int = 4) -> Runs:
        """Deliver messages in both directions, and let time pass."""
        for _ in range(turns):
            self.now += seconds / turns
            self.control.on_tick(self.now)
            self.control.on_round(self.now)
            box, self.box = self.box, []
            for prefix, message in box:
                self.node_does(prefix, message)
            for prefix, node in self.nodes.items():
                node.members.tick(self.now)
                node.settle()
                out = list(node.out)
                node.out.clear()
                node.said += out
                for message in out:
                    self.hear(prefix, message)
                self.report(prefix)
        return self

    def restart(self) -> None:
        """End the head. The orders on their way are lost, and nodes repeat their last news to the
        next head.
        """
        super().restart()
        for prefix, node in self.nodes.items():
            for message in node.said[-3:]:
                self.hear(prefix, message)

    def node_dies(self, prefix: bytes) -> None:
        """End a node with all its commands, and wait until the head has declared it dead."""
        del self.nodes[prefix]
        self.held[prefix] = {}
        self.control.on_lost(prefix)
        while self.control.nodes.is_alive(NAME_OF[prefix]):
            self.talk(1.0)

    # ---- work

    def do(self, request: Any) -> Any:
        answer = self.ask(request)
        if answer.error is not None:
            raise answer.error
        (result,) = answer.results
        is_encoded = isinstance(result, msgspec.Raw)
        kind = reply_type(type(request))
        return msgspec.msgpack.decode(result, type=kind) if is_encoded else result

    def submit(self, indices: str, name: str = "a", **more: Any) -> Runs:
        self.do(ApplyManifests([job_manifest(sweep(indices, name, **more))]))
        return self

    def command(self, name: str, command: Any) -> None:
        self.do(CommandJob(name, command))

    def info(self, name: str = "a") -> Any:
        (row,) = self.do(ListJobs(name=name))
        return row

    def states(self, name: str = "a") -> list[tuple[str, str]]:
        return [(row.name, row.state) for row in self.do(ListElements(name))]

    def job(self, name: str = "a") -> JobRecord:
        job = self.control.gang_scheduler.jobs.table.get(f"default/{name}")
        assert job is not None
        return job

    def tasks(self, name: str = "a") -> ArrayTasks:
        return self.control.gang_scheduler.jobs.arrays.of(self.job(name))

    @property
    def running(self) -> dict[Any, Any]:
        """Return the running commands, by (node, process)."""
        return {
            (prefix, process): order
            for prefix, node in self.nodes.items()
            for process, order in node.running.items()
        }

    @running.setter
    def running(self, value: Any) -> None:
        pass

    def end(self, code: int = 0, count: int = 1, job: str = "") -> list[str]:
        """End up to this many running commands; return their jobs."""
        ended: list[str] = []
        for (prefix, process), order in list(self.running.items()):
            if len(ended) < count and job in ("", order.job):
                self.nodes[prefix].end(process, code)
                ended.append(order.job)
        return ended

    def finish(self, name: str = "a", most: int = 3000) -> None:
        """Let all commands end well until the array is over."""
        for _ in range(most):
            if self.info(name).finished is not None:
                return
            self.end(count=100)
            self.talk(0.03)
        raise AssertionError(f"{self.info(name)} does not end; {self.states(name)}")


def sweep(
    indices: str, name: str = "a", cpus: float = 4.0, restart: Any = "Never", after: Any = None,
    policies: tuple[Policy, ...] = (), **more: Any,
) -> JobSpec:  # fmt: skip
    process = Process(command=("true",), requests=(("CPU", cpus),))
    template = Template(processes=(process,), restart=restart, grace_s=1.0)
    group = TaskGroup(name="w", template=template, max_retry=2)
    return JobSpec(
        name=name,
        groups=(group,),
        array=read_array(indices),
        policies=policies,
        after=after,
        **more,
    )
