"""Connections between two processes of different nodes end although both processes live: nothing is
lost.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import threading

import pytest
from tests.polling import PATIENCE_S, eventually
from tests.present import current_runtime

import phalanx
from phalanx import errors
from phalanx.cluster_utils import Cluster
from phalanx.model.ids import PROCESS_ID_BYTES


@pytest.fixture(scope="module")
def cluster():
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    for name in "ab":
        cluster.add_node(num_cpus=1, resources={name: 10})
    cluster.connect()
    yield cluster
    cluster.shutdown()


@phalanx.remote(num_cpus=0, max_concurrency=4)
class Keeper:
    """An actor that owns objects, and keeps references to objects of others."""

    def __init__(self):
        self.kept = []
        self.open = threading.Event()

    def put(self, value):
        return [phalanx.put(value)]

    def keep(self, refs):
        self.kept += refs

    def read(self):
        return phalanx.get(self.kept)

    def drop(self):
        self.kept.clear()

    def slow(self):
        """Return a reference to a result that is not ready before `finish` is called."""
        return [wait_for.remote(phalanx.get_runtime_context().current_actor)]

    def finish(self):
        self.open.set()

    def wait(self):
        self.open.wait()

    def is_there(self):
        return True

    def ask(self, other, value):
        """Return a reference to a new object of `other`, an actor that this actor knows and its
        caller does not.
        """
        return phalanx.get(other.put.remote(value))


@phalanx.remote(num_cpus=0)
def wait_for(keeper):
    phalanx.get(keeper.wait.remote())
    return "finished"


@phalanx.remote(num_cpus=0)
class Both:
    """An actor that has references to another actor's objects, and can cut its own connections."""

    def __init__(self, other):
        self.refs = phalanx.get(other.put.remote("theirs"))

    def cut(self):
        return cut_all()

    def read(self):
        return phalanx.get(self.refs)


def cut_all():
    """End this process's connections to processes of other nodes; return their number."""
    ends = away(current_runtime())
    for connection in ends:
        connection.sock.shutdown(socket.SHUT_RDWR)
    return len(ends)


def away(runtime):
    """Return the connections of this runtime to processes of other nodes."""
    known = [c for c in runtime.connections() if len(c.peer) == PROCESS_ID_BYTES]
    return [c for c in known if not runtime.owner.peers.is_here(c.peer) and not c.is_dialling]


def on(name):
    return Keeper.options(resources={name: 1}).remote()


def get(ref):
    return phalanx.get(ref, timeout=PATIENCE_S)


def lent():
    gc.collect()
    return current_runtime().owner.references.counts()["lent"]


def test_a_borrowed_object_is_read_after_the_way_to_its_owner_ended(cluster):
    owner = on("b")
    (ref,) = get(owner.put.remote(7))
    for _ in range(3):
        assert cut_all() >= 1
        assert get(owner.is_there.options(max_task_retries=-1).remote())
    assert get(ref) == 7
    assert get(ref) == 7


@pytest.mark.parametrize("size", [10, 2_000_000])
def test_an_owner_keeps_what_borrowers_hold_while_the_way_to_them_is_gone(cluster, size):
    keeper = on("b")
    before = lent()
    value = bytes(size)
    get(keeper.keep.remote([phalanx.put(value)]))
    assert lent() == before + 1
    cut_all()
    assert lent() == before + 1
    assert get(keeper.read.options(max_task_retries=-1).remote()) == [value]
    get(keeper.drop.remote())
    eventually(lambda: lent() == before)


def test_an_end_that_only_one_side_has_seen_is_told_to_the_other(cluster):
    """The other process does not see that the connection has ended, because its end stays open."""
    keeper = on("b")
    before = lent()
    get(keeper.keep.remote([phalanx.put(1)]))
    (ref,) = get(keeper.put.remote(7))
    runtime = current_runtime()
    kept = []
    for connection in away(runtime):
        kept.append(os.dup(connection.fileno))
        with runtime.lock:
            runtime.owner.drop(connection)
    assert get(ref) == 7
    assert get(keeper.read.options(max_task_retries=-1).remote()) == [1]
    assert lent() == before + 1
    get(keeper.drop.remote())
    eventually(lambda: lent() == before)
    for fd in kept:
        os.close(fd)


def test_what_is_on_its_way_is_asked_for_again(cluster):
    keeper = on("b")
    (ref,) = get(keeper.slow.remote())
    assert phalanx.wait([ref], timeout=0) == ([], [ref])
    assert cut_all() >= 1
    get(keeper.finish.options(max_task_retries=-1).remote())
    assert get(ref) == "finished"


def test_actors_of_two_nodes_go_on_when_the_way_between_them_ended(cluster):
    owner = on("a")
    both = Both.options(resources={"b": 1}).remote(owner)
    assert get(both.read.remote()) == ["theirs"]
    again = Both.options(resources={"b": 1}).remote(owner)
    with contextlib.suppress(errors.ActorUnavailableError):  # its answer may be lost as well
        get(again.cut.remote())
    assert get(again.read.options(max_task_retries=-1).remote()) == ["theirs"]


def test_references_from_a_third_process_outlive_the_way_to_their_owner(cluster):
    owner, between = on("b"), on("a")
    (ref,) = get(between.ask.remote(owner, 7))
    cut_all()
    assert get(ref) == 7


def test_a_borrower_that_died_holds_nothing(cluster):
    keeper = on("b")
    before = lent()
    get(keeper.keep.remote([phalanx.put(1)]))
    assert lent() == before + 1
    phalanx.kill(keeper)
    eventually(lambda: lent() == before)


def test_an_owner_that_died_after_the_way_to_it_ended_is_known_to_be_dead(cluster):
    owner = on("b")
    (ref,) = get(owner.put.remote(7))
    cut_all()
    phalanx.kill(owner)
    with pytest.raises(errors.OwnerDiedError, match="which owned it, has died"):
        get(ref)


def test_a_connection_may_begin_with_more_than_a_stranger_may_say(cluster):
    """A function of 6 MB is queued for a worker on another node while the first connection to this
    worker is dialled.
    """
    large = bytes(6_000_000)

    @phalanx.remote(resources={"b": 1}, num_cpus=0, max_retries=0)
    def size():
        return len(large)

    assert get(size.remote()) == len(large)
