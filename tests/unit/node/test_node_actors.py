"""Orders to a node about actors: they are placed, withdrawn, ended and ordered again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.errors import ActorUnschedulableError
from phalanx.model.system_settings import SystemSettings
from phalanx.node.actors import NodeActors
from phalanx.node.dispatch import MessageTable, PeerMessageTable
from phalanx.node.drivers import Drivers
from phalanx.node.effects import NodeSetup
from phalanx.node.known_jobs import KnownJobs
from phalanx.node.leases.machine import LeaseMachine
from phalanx.node.peers import Peers
from phalanx.node.process_history import ProcessHistory
from phalanx.node.requests import NodeAsker
from phalanx.node.worker_processes import EXIT_S, SLOW, WorkerProcesses
from phalanx.node.workers import WorkerPool
from phalanx.protocol.actor_messages import (
    ActorPlaced,
    ActorRefused,
    EndActor,
    PlaceActor,
    WithdrawActor,
)
from phalanx.protocol.cluster_messages import JobEnded, Via
from phalanx.protocol.node_messages import ActorReady
from phalanx.protocol.requests.node import RegisterDriver
from phalanx.protocol.wire_errors import code_of
from phalanx.scheduler.devices.instances import NodeResources

JOB = b"\0\0\0\1"
ACTOR = b"actor".ljust(16)


class Node:
    """The parts of a node that actors use. Processes start and end when a test says so."""

    def __init__(self, cpus=1):
        self.now = 1.0
        self.notified: list[Any] = []
        self.starting = []
        self.ending = []
        self.created = []
        self.peers = Peers()
        self.count = 0
        control = SimpleNamespace(notify=self.notified.append)
        groups = SimpleNamespace(look_up=lambda group: None)
        store: Any = SimpleNamespace(owner_gone=lambda owner, kept: None)
        jobs = KnownJobs(SystemSettings())
        resources = NodeResources({"CPU": cpus})
        self.leases = LeaseMachine(
            resources, self, WorkerPool(4, self.make_id), node_id="n1", labels={}
        )
        self.is_sure = True
        self.actors = NodeActors(
            self.clock,
            self.leases,
            groups=groups,
            workers=self,
            peers=self.peers,
            jobs=jobs,
            head=control,
            report_needed=self.report_needed,
            may_begin=lambda: self.is_sure,
        )
        self.from_processes = PeerMessageTable()
        self.actors.handle_in(MessageTable(), self.from_processes)
        self.drivers = Drivers(
            NodeSetup(node_id="0" * 56, resources=resources, labels={}, python="3.11"),
            control,
            leases=self.leases,
            workers=self,
            peers=self.peers,
            jobs=jobs,
            store=store,
            new_process=self.make_id,
            history=ProcessHistory(self.clock),
        )

    def make_id(self, job):
        self.count += 1
        return self.count.to_bytes(12, "big") + job

    def clock(self):
        return self.now

    def report_needed(self):
        self.notified.append("what is free")

    # ---- effects

    def start_worker(self, worker):
        self.starting.append(worker)

    def stop_worker(self, worker, reason, force):
        self.ending.append(worker.worker_id)

    end_worker = stop_worker

    def leaves(self, worker, reason):
        raise AssertionError("no actor leaves by its own will here")

    def finishes(self, worker, now):
        raise AssertionError("no process ends by itself here")

    def warn_worker(self, worker):
        raise AssertionError("nothing is preempted here")

    # ---- events

    def order(self, incarnation=0, actor=ACTOR, lived_before=False):
        one = {"CPU": 1.0}
        order = PlaceActor(
            actor, incarnation, JOB, b"", "", "", one, one, b"", {}, 0, lived_before=lived_before
        )
        self.actors.place(order)

    def starts(self):
        worker = self.starting.pop(0)
        self.peers.add(SimpleNamespace(peer=worker.worker_id, post=self.created.append))
        self.leases.worker_ready(worker.worker_id, 1, self.now)
        return worker.worker_id

    def ends(self):
        worker_id = self.ending.pop(0)
        self.peers.remove(worker_id)
        self.starting = [w for w in self.starting if w.worker_id != worker_id]
        self.leases.worker_gone(worker_id, self.now)

    def placed(self):
        return [m.worker for m in self.notified if isinstance(m, ActorPlaced)]


def test_an_order_told_twice_makes_one_actor():
    node = Node(cpus=2)
    node.order()
    node.order()
    made = node.starts()
    node.order()
    assert (node.placed(), node.starting, len(node.created)) == ([made], [], 1)


def test_an_actor_ordered_again_while_its_last_process_ends_is_made_again():
    node = Node()
    node.order(incarnation=1)
    first = node.starts()
    node.actors.end(EndActor(first, "the actor is not wanted", True))
    node.order(incarnation=1)
    node.ends()
    second = node.starts()
    assert node.placed() == [first, second]


class Ending:
    """Records the worker processes that the node ends."""

    def __init__(self):
        self.killed = []
        self.processes = WorkerProcesses(self, Peers(), KnownJobs(SystemSettings()))

    def fork(self, worker, environment):
        raise AssertionError("nothing is started here")

    def kill(self, process):
        self.killed.append(process)

    def terminate(self, process):
        raise AssertionError("nothing is preempted here")


def test_a_process_that_has_done_its_work_has_a_while_to_end():
    ending = Ending()
    ending.processes.leaves(b"left", "it left")
    for worker in (b"left", b"crashed", b"quick"):
        ending.processes.finishes(worker, 10.0)
    ending.processes.finishes(b"left", 10.0 + EXIT_S / 2)  # said twice, counted from the first time
    assert ending.processes.take_reason(b"quick") is None  # it has ended
    ending.processes.tick(10.0 + EXIT_S / 2)
    assert ending.killed == []
    ending.processes.tick(10.0 + EXIT_S)
    assert ending.killed == [b"left", b"crashed"]
    ending.processes.tick(20.0 + EXIT_S)
    assert ending.killed == [b"left", b"crashed"]
    assert ending.processes.take_reason(b"left") == ("it left", "exited")
    assert ending.processes.take_reason(b"crashed") == (SLOW, "crashed")


def test_a_worker_hears_whether_its_actor_lived_before():
    node = Node(cpus=2)
    node.order()
    node.starts()
    node.order(actor=b"other".ljust(16), lived_before=True)
    node.starts()
    assert [m.lived_before for m in node.created] == [False, True]


def test_an_order_that_comes_while_the_worker_of_a_withdrawn_one_starts_uses_it():
    node = Node(cpus=2)
    node.order()
    node.actors.withdraw(WithdrawActor(ACTOR))
    node.order(incarnation=1)
    assert len(node.starting) == 1
    node.starts()
    assert [m.incarnation for m in node.created] == [1]


def test_a_jobs_end_spares_its_detached_actors_even_those_whose_process_only_starts():
    node = Node(cpus=3)
    node.order()
    detached = node.starts()
    node.order(actor=b"other".ljust(16))
    other = node.starts()
    late = b"late".ljust(16)
    node.order(actor=late)
    node.drivers.job_ended(JobEnded(JOB, [ACTOR, late], b"driver", []))
    assert node.ending == [other]
    assert detached in node.peers
    node.starts()
    assert len(node.placed()) == 3


def test_actors_beyond_the_limit_of_processes_fail_and_tasks_find_room():
    """Each worker costs open files in the node's processes, and actors may not use all of them."""
    node = Node(cpus=9)
    node.leases.workers = WorkerPool(2, node.make_id, max_workers=5)
    for number in range(4):
        node.order(actor=bytes([number]) * 16)
    made = [node.starts() for _ in range(3)]
    assert (node.placed(), node.starting) == (made, [])
    (refused,) = [m for m in node.notified if isinstance(m, ActorRefused)]
    assert refused.actor == bytes([3]) * 16
    assert refused.code == code_of(ActorUnschedulableError)
    assert "runs 3 actors" in refused.reason
    node.leases.worker_gone(made[0], node.now)
    node.order(actor=bytes([4]) * 16)
    assert len(node.starting) == 1, "the place of one that has ended is free again"


def test_the_head_knows_what_an_actor_holds_before_it_hears_that_it_is_made():
    node = Node()
    node.order()
    worker = node.starts()
    node.from_processes.handle(SimpleNamespace(peer=worker), ActorReady(ACTOR))
    placed, report, ready = node.notified
    assert isinstance(placed, ActorPlaced)
    assert report == "what is free"
    assert isinstance(ready, Via)


def test_a_program_of_another_python_is_refused():
    """No worker on this node could load the program's pickles."""
    node = Node()
    asker: Any = NodeAsker.__new__(NodeAsker)
    asker.peer = SimpleNamespace()
    request = RegisterDriver([], "/", "", False, python="3.13")
    with pytest.raises(ValueError, match=r"Python 3\.13, and the cluster's node on 3\.11"):
        node.drivers.register(asker, request)


def test_a_worker_whose_connection_has_ended_gets_no_work():
    node = Node()
    idle = node.leases.workers.prestart(JOB)
    node.leases.worker_ready(idle.worker_id, 1, node.now)
    node.leases.workers.retire(idle.worker_id)
    node.order()
    assert [w.worker_id for w in node.starting] == [node.count.to_bytes(12, "big") + JOB]
    assert node.starts() != idle.worker_id


def test_no_actor_is_made_while_the_head_may_have_given_the_node_up():
    node = Node()
    node.is_sure = False
    node.order(incarnation=3)
    made = node.starts()
    assert (node.created, node.placed()) == ([], [])
    assert node.actors.here() == {ACTOR: (b"", 3)}
    node.is_sure = True
    node.actors.begin_waiting()
    assert [m.incarnation for m in node.created] == [3]
    assert node.placed() == [made]


def test_an_actor_that_waited_gets_another_worker_if_its_own_has_ended():
    node = Node()
    node.is_sure = False
    node.order()
    node.ending.append(node.starts())
    node.ends()
    node.is_sure = True
    node.actors.begin_waiting()
    assert node.created == []
    second = node.starts()
    assert node.placed() == [second]


def test_an_actor_that_waited_and_was_withdrawn_is_not_made():
    node = Node()
    node.is_sure = False
    node.order()
    node.starts()
    node.actors.withdraw(WithdrawActor(ACTOR))
    node.is_sure = True
    node.actors.begin_waiting()
    assert (node.created, len(node.leases.leases)) == ([], 0)
