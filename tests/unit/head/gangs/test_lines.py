"""Positions in a queue, computed for one gang and for all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.cluster import one_node

from phalanx.head.gangs.cycle_window import WINDOW
from phalanx.head.gangs.gang import Gang, Member
from phalanx.head.gangs.queue_positions import QueuePositions, came
from phalanx.model.ids import GangId, GroupId
from phalanx.protocol.requests.gangs import Explain, SetRules

BY_AGE = """\
actions: "allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
"""


def made(number, created, priority, queue):
    return Gang(
        gang_id=GangId(GroupId(bytes([number]))), name=f"g{number}", queue=queue,
        priority=priority, min_members=1, members=[Member(need={})], creator=b"", created=created,
    )  # fmt: skip


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 1), st.sampled_from("ab")), max_size=9),
    st.sets(st.integers(0, 8)),
)
def test_so_many_stand_before_each(rows, gone):
    lines = QueuePositions()
    gangs = [made(number, float(at), *rest) for number, (at, *rest) in enumerate(rows)]
    for gang in gangs:
        lines.enter(gang)
    for gang in (one for one in gangs if one.gang_id[0] in gone):
        lines.leave(gang)
    there = [one for one in gangs if one.gang_id[0] not in gone]
    for gang in gangs:
        of_queue = [one for one in there if one.queue == gang.queue]
        higher = sum(one.priority > gang.priority for one in of_queue)
        earlier = [one for one in of_queue if came(one) < came(gang)]
        assert lines.of_higher_priority(gang) == higher
        assert lines.earlier(gang, any_priority=True) == len(earlier)
        same = sum(one.priority == gang.priority for one in earlier)
        assert lines.earlier(gang, any_priority=False) == same


@pytest.mark.parametrize("rules", [None, BY_AGE])
def test_the_place_of_one_is_its_place_among_all(rules):
    world = one_node(4)
    world.ask(SetRules(rules))
    world.queue("lab")
    for number in range(WINDOW + 8):
        world.now += 1.0
        for priority in (0, 5):
            world.gang(f"g{number}-{priority}", 1, cpus=4, priority=priority)
        world.gang(f"l{number}", 1, cpus=4, queue="lab")
    world.rounds(3)
    world.gang("one more", 2, cpus=2, priority=5)
    places = {name: wait.position for name, wait in world.scheduler.explanations.reasons().items()}
    assert len(places) == 3 * (WINDOW + 8), "all but the one that runs, and one more"
    assert {name: world.ask(Explain(name)).position for name in places} == places
