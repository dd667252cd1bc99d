"""The nodes that have a task's large arguments, as the task's owner knows them."""

from __future__ import annotations

import msgspec
import pytest

from phalanx.objects.reference import make_ref
from phalanx.observe.cluster_events import EventRing
from phalanx.owner.tasks.locality import Locality
from phalanx.owner.tasks.records import ClassKey, FunctionRecord, PendingTask, Template
from phalanx.protocol.messages import SHARED, Value

ME = b"here--" + b"driver----"
KEY = ClassKey((("CPU", 1.0),), b"", b"", "", 0, False)


def value(node: bytes, size: int) -> Value:
    name = f"{(node + b'worker----').hex()}-1"
    return Value(SHARED, name.encode(), size=size)


def task(*values, key=KEY):
    refs = []
    for number, one in enumerate(values):
        refs.append(make_ref(ME, number << 32))
        refs[-1]._value = one
    template = Template(
        function=FunctionRecord(b"f", "f", b""), key=key, name="f", returns=1, max_retries=0
    )
    return PendingTask(7, template, b"", refs, None, [])


@pytest.mark.parametrize(
    ("died", "near"),
    [([], b"there-"), ([b"there-"], b"other-"), ([b"there-", b"other-"], b"")],
)
def test_the_node_that_is_named_is_known_to_be_alive(died, near):
    events = EventRing()
    locality = Locality(ME, events, is_here=lambda name: False, wall=lambda: 0.0)
    for prefix in died:
        locality.node_died(prefix)
    wanted = task(value(b"there-", 2**20), value(b"other-", 2**18))
    locality.place(wanted, number_of=lambda key: 1)
    assert wanted.key.near == near
    assert [row["near"] for row in events.rows()] == ([near.hex()] if near else [])


def test_strategies_of_their_own_keep_their_class():
    locality = Locality(ME, EventRing(), is_here=lambda name: False, wall=lambda: 0.0)
    spread = msgspec.structs.replace(KEY, strategy=b'{"name":"SPREAD"}')
    wanted = task(value(b"there-", 2**20), key=spread)
    locality.place(wanted, number_of=lambda key: 1)
    assert wanted.key is spread


def test_a_node_that_has_read_an_argument_has_a_copy_of_it():
    locality = Locality(ME, EventRing(), is_here=lambda name: False, wall=lambda: 0.0)
    read, large = value(b"there-", 2**20), value(b"other-", 2**18)
    locality.note_reads(task(read).inputs, b"other-worker----")
    wanted = task(read, large)
    locality.place(wanted, number_of=lambda key: 1)
    assert wanted.key.near == b"other-"  # both lie there
    locality.node_died(b"other-")
    wanted = task(read, large)
    locality.place(wanted, number_of=lambda key: 1)
    assert wanted.key.near == b"there-"


def test_copies_are_forgotten_where_too_many_are_known(monkeypatch):
    monkeypatch.setattr("phalanx.owner.tasks.locality.COPIES_KNOWN", 1)
    locality = Locality(ME, EventRing(), is_here=lambda name: False, wall=lambda: 0.0)
    first, second = value(b"there-", 2**20), value(b"third-", 2**20)
    for one in (first, second):
        locality.note_reads(task(one).inputs, b"other-worker----")
    for one, near in ((first, b"there-"), (second, b"other-")):
        wanted = task(one, value(b"other-", 1))
        locality.place(wanted, number_of=lambda key: 1)
        assert wanted.key.near == near
