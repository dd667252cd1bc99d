"""The simulated network and time: order, partitions, broken connections, frozen machines."""

from __future__ import annotations

import functools

import pytest

from phalanx.protocol.node_messages import Stop
from phalanx_research.chaos.broken import Broken
from phalanx_research.chaos.hosts import Host
from phalanx_research.chaos.kernel import Kernel
from phalanx_research.chaos.network import Network
from phalanx_research.chaos.options import NetworkOptions

OPTIONS = NetworkOptions(latency_s=(0.01, 0.02), jitter_s=0.05, notice_s=0.1, give_up_s=1.0)


class Listener:
    """A process that records what it receives."""

    def __init__(self, name):
        self.name = name
        self.heard = []
        self.ended = []

    def on_message(self, end, message):
        self.heard.append(message.reason)

    def on_end(self, end):
        self.ended.append(end.number)


class Place:
    """Two machines, a process on each, and a connection between them."""

    def __init__(self):
        self.kernel = Kernel("a seed")
        self.network = Network(self.kernel, OPTIONS)
        self.here, self.there = Host(self.kernel, "a"), Host(self.kernel, "b")
        self.network.add_host(self.here, b"caller")
        self.network.add_host(self.there, b"server")
        self.caller, self.server = Listener("caller"), Listener("server")
        self.network.add_process(self.there, b"server", self.server)
        self.end = self.dial()

    def dial(self, target=b"server"):
        return self.network.dial(self.here, self.caller, target)

    def say(self, *words):
        for word in words:
            self.end.post(Stop(word))

    def run(self, until):
        self.kernel.run(until)
        return self.server.heard


@pytest.fixture
def place():
    return Place()


def test_messages_come_in_order_whatever_each_takes(place):
    words = [str(n) for n in range(50)]
    place.say(*words)
    assert place.run(5.0) == words


def test_what_is_said_before_a_close_arrives(place):
    place.say("one", "two")
    place.end.close()
    assert place.run(5.0) == ["one", "two"]
    assert len(place.server.ended) == 1
    assert place.caller.ended == []


def test_who_dials_nobody_hears_the_end(place):
    place.dial(b"server, but another process")
    place.kernel.run(1.0)
    assert len(place.caller.ended) == 1


def test_a_short_partition_delays(place):
    place.run(0.5)
    place.network.block(place.here, place.there)
    place.say("late")
    place.kernel.after(0.05, lambda: place.network.unblock(place.here, place.there))
    assert place.run(0.54) == []
    assert place.run(2.0) == ["late"]
    assert place.server.ended == []


def test_a_long_partition_is_given_up_by_each_side(place):
    place.run(0.5)
    place.network.block(place.here, place.there)
    place.say("never")
    place.run(3.0)
    assert len(place.caller.ended) == len(place.server.ended) == 1
    place.network.unblock_all()
    assert place.run(5.0) == []


def test_a_dial_across_a_partition_waits_for_its_end(place):
    place.network.block(place.here, place.there)
    place.end = place.dial()
    place.say("hello")
    place.kernel.after(0.05, lambda: place.network.unblock(place.here, place.there))
    assert place.run(3.0) == ["hello"]


def test_a_broken_connection_ends_on_both_sides_and_loses_the_last(place):
    place.run(0.5)
    place.say(*"abcdef")
    place.network.cut(place.here, place.there)
    heard = place.run(3.0)
    assert heard == list("abcdef")[: len(heard)]
    assert len(place.caller.ended) == len(place.server.ended) == 1


def test_a_machine_that_stands_still_hears_everything_later(place):
    place.there.freeze(2.0)
    place.say("one", "two")
    assert place.run(1.9) == []
    assert place.run(3.0) == ["one", "two"]


@pytest.mark.parametrize("is_noticed", [True, False])
def test_a_machine_that_is_gone_says_nothing(place, is_noticed):
    place.run(0.5)
    place.there.is_up = False
    place.network.host_down(place.there, is_noticed)
    place.say("never")
    assert place.run(3.0) == []
    assert len(place.caller.ended) == 1


def test_clocks_differ_and_ticks_stop_with_the_machine():
    kernel = Kernel("a seed")
    host = Host(kernel, "a", ahead_s=100.0, rate=1.5)
    ticks = []
    host.every(1.0, lambda: ticks.append(host.clock()))
    kernel.run(2.5)
    assert ticks == [101.5, 103.0]
    host.is_up = False
    kernel.run(9.0)
    assert len(ticks) == 2


def test_equal_times_happen_in_the_order_they_were_asked_for():
    kernel = Kernel("a seed")
    done: list[str] = []
    for name in "abc":
        kernel.at(1.0, functools.partial(done.append, name))
    kernel.at(0.5, lambda: kernel.at(0.1, lambda: done.append("now")))
    kernel.run(2.0)
    assert done == ["now", "a", "b", "c"]


def test_a_digest_tells_runs_apart():
    one, other = Kernel("x"), Kernel("x")
    one.log("a", "hello")
    other.log("a", "hello")
    assert one.digest() == other.digest()
    other.log("a", "again")
    assert one.digest() != other.digest()


def test_who_does_nothing_else_any_more_breaks_a_promise():
    kernel = Kernel("a seed")

    def again():
        kernel.note("a", "b", "the same", b"")
        kernel.after(1e-6, again)

    kernel.after(0.0, again)
    with pytest.raises(Broken, match="a, b keep each other busy"):
        kernel.run(1.0)
    assert kernel.now < 0.1
