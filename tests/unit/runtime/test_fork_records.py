"""A node's records of its fork server's children, and the number of kills that its helper processes
survive.
"""

from __future__ import annotations

from phalanx.protocol.bundle_messages import Streams
from phalanx.protocol.fork_messages import Began, Exited, Fork, Forked, RunCommand
from phalanx.runtime.os.fork_records import ForkRecords
from phalanx.runtime.os.helpers import MOST_KILLED, WITHIN_S, Deaths


def command(name, streams=None, memory=0):
    return RunCommand(name, ["true"], {}, "/", "log", memory, streams)


def test_what_has_begun_and_what_has_not():
    records = ForkRecords(lambda process: f"/s/{process.hex()}")
    streams = Streams(b"\1", is_terminal=False)
    orders = [Fork(b"w", {}), Fork(b"v", {}), command(b"c", memory=9), command(b"d", streams)]
    for order in orders:
        records.ordered(order)
    for message in (Forked(b"w", 11, 10, 5, 6), Began(b"c", 21, 20), Began(b"d", 31, 30)):
        records.heard(message)
    found = {one.process: one for one in records.begun()}
    assert {name: (one.pid, one.shield) for name, one in found.items()} == {
        b"w": (11, 10), b"c": (21, 20), b"d": (31, 30),
    }  # fmt: skip
    assert found[b"w"].output == (5, 6)
    assert (found[b"c"].memory_bytes, found[b"c"].is_command) == (9, True)
    assert found[b"d"].socket == "/s/01"
    assert records.take_unbegun() == [orders[1]]
    assert records.take_unbegun() == []
    for process in (b"w", b"c"):
        records.heard(Exited(process, 1, 0))
    assert [one.process for one in records.begun()] == [b"d"]


def test_helpers_are_started_again_unless_too_many_are_killed_at_a_time():
    now = 0.0
    deaths = Deaths(lambda: now)
    for _ in range(MOST_KILLED):
        deaths.add()
        assert not deaths.are_too_many()
    deaths.add()
    assert deaths.are_too_many()
    now += WITHIN_S
    assert not deaths.are_too_many()
    deaths.add()
    assert not deaths.are_too_many()
