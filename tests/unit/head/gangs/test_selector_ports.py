"""Ports that are free on all nodes of a gang, and nodes that refused a gang."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from phalanx.head.gangs.cycles import configuration
from phalanx.head.gangs.gang import Gang, Member
from phalanx.head.gangs.member_states import HELD
from phalanx.head.gangs.offered_ports import OfferedPorts
from phalanx.head.gangs.refusals import Refusals
from phalanx.head.gangs.rendezvous import Rendezvous
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.devices.sets import ResourceSet
from phalanx.scheduler.placement.placement_policy import read_placement_policy
from phalanx.scheduler.placement.selector.tried import FORGOTTEN_AFTER_S

PORTS = {"a": "3000-3005", "b": "3004-3009", "c": "3004-3006,4000-4999", "d": "5000"}


def nodes(ports: dict[str, str]) -> Any:
    """Return a stand-in for the node directory, whose nodes have these ports."""
    records = {name: SimpleNamespace(ports=text) for name, text in ports.items()}
    return SimpleNamespace(get=records.get, living=lambda: list(records.values()))


def gang(name="g", members=2, ports=2):
    return Gang(
        gang_id=name.encode(),
        name=name,
        queue="q",
        priority=0,
        min_members=members,
        members=[Member(need={"CPU": 1.0}) for _ in range(members)],
        creator=b"",
        created=0.0,
        port_count=ports,
    )


@pytest.fixture
def rendezvous():
    return Rendezvous(random.Random(1), str, OfferedPorts(nodes(PORTS)), 2000)


def test_the_ports_are_free_on_all_nodes_of_the_gang(rendezvous):
    one = gang()
    assert rendezvous.choose_ports(one, ["a", "b"])
    assert one.ports == [3004, 3005]
    other = gang("h", ports=1)
    assert not rendezvous.choose_ports(other, ["a", "b"]), "another gang has both"
    assert rendezvous.choose_ports(other, ["c", "b"])
    assert other.ports == [3006]


def test_a_gang_that_comes_again_has_the_same_ports_where_they_will_do(rendezvous):
    one = gang()
    rendezvous.choose_ports(one, ["b"])
    before = one.ports
    assert rendezvous.choose_ports(one, ["b"])
    assert one.ports == before
    assert rendezvous.choose_ports(one, ["c"])
    assert all(port in (3004, 3005, 3006) or 4000 <= port < 5000 for port in one.ports)


def test_members_that_run_keep_their_ports(rendezvous):
    one = gang()
    rendezvous.choose_ports(one, ["a", "b"])
    one.members[0].state, one.members[0].node = HELD, "a"
    assert rendezvous.choose_ports(one, ["c"])
    assert one.ports == [3004, 3005]
    assert not rendezvous.choose_ports(one, ["d"])
    assert one.ports == [3004, 3005]


def test_ports_that_every_node_has_come_first():
    ports = {"a": "2100-2900", "b": "2100-2900", "c": "2500-2501"}
    one = gang()
    Rendezvous(random.Random(2), str, OfferedPorts(nodes(ports)), 2000).choose_ports(one, "ab")
    assert one.ports == [2500, 2501]


def test_no_port_below_the_first(rendezvous):
    one = gang(ports=1)
    low = Rendezvous(random.Random(1), str, OfferedPorts(nodes({"a": "80"})), 2000)
    assert not low.choose_ports(one, ["a"])


def test_a_node_that_refused_a_gang_is_asked_again_after_a_while():
    clock: Any = SimpleNamespace(now=lambda: clock.at, at=0.0)
    amended = []
    refusals = Refusals(clock, lambda one: amended.append(one.name))
    one = gang()
    refusals.refused(one, "a", [0, 1])
    assert refusals.of(one) == {"a": ResourceSet.from_mapping({"CPU": 2.0})}
    assert not refusals.expire()
    clock.at = FORGOTTEN_AFTER_S
    assert refusals.expire()
    assert refusals.of(one) == {}
    assert amended == ["g", "g"], "the scheduler reads it again both times"
    assert not refusals.expire()
    refusals.refused(one, "a", [0])
    refusals.forget(one)
    assert refusals.of(one) == {}


def test_the_policy_of_the_cluster_is_that_of_its_gangs():
    selector = configuration(read_placement_policy({"policy": "selector", "candidate_factor": 3}))
    (found,) = [one for tier in selector.tiers for one in tier if one.name == "selector"]
    assert found.arguments["candidate_factor"] == 3
    assert "binpack" not in selector.plugin_names()
    assert "selector" in known_plugins()
    assert "selector" not in configuration().plugin_names()
