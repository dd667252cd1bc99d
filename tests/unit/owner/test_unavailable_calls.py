"""If an actor goes away during a call, the call waits for news of its death before it fails."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.errors import ActorDiedError, ActorUnavailableError
from phalanx.model.ids import PREFIX_BYTES
from phalanx.model.lifecycle import ALIVE, DEAD, RESTARTING
from phalanx.objects.failures import load
from phalanx.owner.actors.client import CallOptions
from phalanx.owner.core import OwnerCore
from phalanx.owner.shell import OwnerShell
from phalanx.protocol.node_messages import ActorUpdate

NODE = b"n" * PREFIX_BYTES


class End:
    """A connection on which no message arrives."""

    waiting = 0
    is_dialling = False

    def __init__(self, peer):
        self.peer = peer

    def post(self, message):
        pass

    send = post

    def flush(self):
        pass


class Program:
    """A process that calls an actor on a node that lives."""

    def __init__(self):
        self.now = 0.0
        anything: Any = self
        node: Any = End(b"node")
        self.core = OwnerCore(
            NODE + b"driver",
            "driver",
            OwnerShell(
                transport=anything,
                outbox=anything,
                node=node,
                files=anything,
                pack=lambda value: (b"", None, None),
                clock=lambda: self.now,
                wall=lambda: self.now,
                request_tick=lambda: None,
                warn=lambda text: None,
            ),
        )
        self.life = 0
        self.client = self.core.calls.client(b"actor", watch=False)
        self.hear(ALIVE)

    def dial(self, process):
        return End(process)

    def is_here(self, name):
        return True

    def watch(self, connection):
        pass

    close = flush_later = watch

    def post(self, connection, message):
        pass

    def hear(self, state, reason=""):
        worker = NODE + b"worker-%d" % self.life if state == ALIVE else b""
        self.core.calls.clients.updated(ActorUpdate(b"actor", state, self.life, worker, reason))

    def goes_away(self):
        """End the actor's process, and let the node report that the actor will come back."""
        assert self.client.connection is not None
        self.core.connection_ended(self.client.connection)
        self.life += 1
        self.hear(RESTARTING, "it was killed")

    def call(self):
        call = self.core.calls.new(self.client, "m", b"", None, None, CallOptions())
        self.core.calls.submit(call, None)
        return call.refs[0]

    def wait(self, seconds):
        self.now += seconds
        self.core.tick(self.now)

    def told(self, ref):
        """Return the error with which a call ended; None if it has not ended."""
        value = ref._value
        return None if value is None else load(value.data)


@pytest.fixture
def program():
    return Program()


def under_way(program):
    ref = program.call()
    program.goes_away()
    return ref


def meanwhile(program):
    program.goes_away()
    return program.call()


@pytest.mark.parametrize("made", [under_way, meanwhile])
def test_it_is_told_of_a_death_that_is_known_a_little_later(program, made):
    ref = made(program)
    program.wait(0.1)
    program.wait(0.9)
    assert program.told(ref) is None
    program.hear(DEAD, "its constructor raised")
    assert isinstance(program.told(ref), ActorDiedError)
    assert "its constructor raised" in str(program.told(ref))


@pytest.mark.parametrize("made", [under_way, meanwhile])
def test_without_such_news_it_is_told_that_the_actor_is_unavailable(program, made):
    ref = made(program)
    program.wait(0.1)
    assert program.told(ref) is None
    program.wait(1.1)
    assert isinstance(program.told(ref), ActorUnavailableError)
    assert "The actor is restarting: it was killed" in str(program.told(ref))
    assert not program.core.calls.by_number


def test_it_does_not_wait_any_longer_once_the_actor_is_there_again(program):
    ref = under_way(program)
    program.hear(ALIVE)
    assert isinstance(program.told(ref), ActorUnavailableError)


def test_the_end_of_the_node_ends_the_wait(program):
    ref = under_way(program)
    program.core.node_lost()
    assert isinstance(program.told(ref), ActorDiedError)


def test_each_death_has_its_own_wait(program):
    first = under_way(program)
    program.wait(0.1)
    program.hear(ALIVE)
    second = under_way(program)
    program.wait(1.1)
    assert isinstance(program.told(first), ActorUnavailableError)
    assert program.told(second) is None
