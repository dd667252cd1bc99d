"""News about the actors that a process calls, and how the process handles connections that end."""

from __future__ import annotations

from typing import Any

import pytest

from phalanx.model.lifecycle import ALIVE, DEAD, RESTARTING
from phalanx.owner.actors.client import ActorClient, CallOptions, PendingCall
from phalanx.owner.actors.clients import ActorClients
from phalanx.protocol.node_messages import ActorUpdate

HERE, ELSEWHERE = b"here-worker", b"away-worker"


class End:
    """One end of a connection."""

    def __init__(self, is_dialling=False):
        self.is_dialling = is_dialling


class Caller:
    """A process that calls one actor, and the log of what it did."""

    def __init__(self):
        self.log: list[Any] = []
        self.ends = {}
        peers: Any = self
        self.clients = ActorClients(peers, lambda actor: self.log.append("ask"), self.is_known)
        self.client = self.clients.known[b"actor"] = ActorClient(b"actor", self)

    def is_known(self, client):
        if client.state == DEAD:
            self.log.append("over")

    def peer(self, process):
        return self.ends.setdefault(process, End())

    def known(self, process):
        return self.ends.get(process)

    def is_here(self, process):
        return process.startswith(b"here")

    def send_calls(self, actor, calls, urgent):
        self.log.append(f"send {','.join(str(c.number) for c in calls)}")

    def fail_call(self, call, actor):
        self.log.append(f"fail {call.number}: {actor.reason}")

    def ended_under(self, call, actor):
        self.blamed = call.number

    def call(self, number, retries=0):
        self.client.submit(
            PendingCall(number, self.client, "m", b"", None, None, [], CallOptions(retries=retries))
        )

    def hear(self, state, worker=b"", incarnation=0, reason=""):
        self.clients.updated(ActorUpdate(b"actor", state, incarnation, worker, reason))

    def end(self, process):
        self.clients.connection_ended(self.ends.pop(process))

    def told(self):
        log, self.log = self.log, []
        return log


@pytest.fixture
def caller():
    return Caller()


def test_an_end_that_is_told_waits_for_the_last_answers(caller):
    caller.hear(ALIVE, HERE)
    caller.call(1)
    assert caller.told() == ["send 1"]
    caller.hear(DEAD, reason="it was killed")
    assert caller.told() == []
    caller.end(HERE)
    assert caller.told() == ["fail 1: it was killed", "over"]
    assert not caller.clients.known


def test_news_of_an_earlier_incarnation_are_passed_over(caller):
    caller.hear(ALIVE, HERE, incarnation=2)
    caller.hear(DEAD, incarnation=1)
    caller.end(HERE)
    assert caller.client.state == ALIVE


def test_on_this_node_the_end_of_a_connection_is_followed_by_news(caller):
    caller.hear(ALIVE, HERE)
    caller.end(HERE)
    caller.clients.tick(1.0)
    assert caller.told() == []


def test_an_actor_that_lives_where_it_was_is_found_again(caller):
    """Only the connection ended, and the actor lives in the same process. Calls that were sent may
    have run, and the rest are sent.
    """
    caller.hear(ALIVE, ELSEWHERE)
    caller.call(1)
    caller.call(2, retries=1)
    caller.end(ELSEWHERE)
    caller.clients.tick(1.0)
    assert caller.told() == ["send 1", "send 2", "ask"]
    caller.hear(ALIVE, ELSEWHERE)  # dials
    caller.ends[ELSEWHERE].is_dialling = True
    caller.clients.tick(2.0)
    assert caller.told() == []
    caller.ends[ELSEWHERE].is_dialling = False
    caller.clients.tick(3.0)
    assert caller.told() == ["fail 1: the connection to it was lost", "send 2"]
    assert caller.client.state == ALIVE


@pytest.mark.parametrize("state", [ALIVE, RESTARTING, DEAD])
def test_an_astray_actor_that_was_restarted_or_died_is_not_looked_for(caller, state):
    caller.hear(ALIVE, ELSEWHERE)
    caller.call(1)
    caller.end(ELSEWHERE)
    caller.hear(state, b"away-another", incarnation=1, reason="why")
    reason = "it was restarted" if state == ALIVE else "why"
    over = ["over"] if state == DEAD else []
    assert caller.told() == ["send 1", f"fail 1: {reason}", *over]
    caller.clients.tick(1.0)
    assert caller.told() == []


def test_an_actor_that_moved_before_its_old_ways_end_was_seen(caller):
    caller.hear(ALIVE, HERE)
    caller.call(1)
    caller.hear(RESTARTING)  # held back: its connection stands
    caller.hear(ALIVE, b"here-another", incarnation=1)
    assert caller.told() == ["send 1", "fail 1: it was restarted"]
    caller.end(HERE)
    caller.call(2)
    assert caller.told() == ["send 2"]


def test_an_actor_that_moved_without_a_word_between(caller):
    """The caller never got the news that the old process had ended, because the head that had this
    news was gone.
    """
    caller.hear(ALIVE, HERE)
    caller.call(1)
    caller.call(2, retries=1)
    caller.end(HERE)
    caller.hear(ALIVE, b"here-another", incarnation=2)
    assert caller.told() == ["send 1", "send 2", "fail 1: it was restarted", "send 2"]
