"""Scheduling rules that are set on a running cluster: which are refused, how they are stored, and
what they do.
"""

from __future__ import annotations

import pytest
from tests.world.cluster import World, stored_world

from phalanx.errors import JobCommandError
from phalanx.head.gangs.rules import MAX_BYTES, MAX_VALUES
from phalanx.model.jobs.spec import Process, TaskGroup, Template
from phalanx.model.jobs.timing import Timing
from phalanx.protocol.requests.gangs import Explain, GetRules, SetRules
from phalanx.protocol.requests.jobs import ListJobs
from phalanx.scheduler.cycle.registry import BUILT_IN

from .test_what_people_see import settle

PROMISING = """\
actions: "allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: reservation
  - name: predicates
"""
PROCESS = Process(command=("true",), requests=(("CPU", 1.0),))


def group(replicas=1):
    template = Template(processes=(PROCESS,), restart="Never")
    return TaskGroup(name="a", replicas=replicas, template=template)


def timed(world, name, replicas, seconds):
    world.job(group(replicas), name=name, min_available=replicas, timing=Timing(limit_s=seconds))


def row(world, name):
    return world.ask(ListJobs(name=name))[0]


def test_rules_are_shown_set_and_reset():
    world = World()
    world.add("n1", CPU=4.0)
    first = world.ask(GetRules())
    assert (first.is_own, first.file) == (False, "")
    assert world.ask(SetRules(first.text, "same.yaml")).plugins == first.plugins
    own = world.ask(SetRules(PROMISING, "own.yaml"))
    assert (own.is_own, own.file, own.text) == (True, "own.yaml", PROMISING)
    named = ["priority", "gang", "reservation", "predicates"]
    assert own.plugins == [*named, "licenses", "calendar", "limits", "gpu-sharing"]
    assert world.ask(SetRules(None)) == first


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (PROMISING.replace("predicates", "predicate"), "own.yaml:7: there is no plugin"),
        (PROMISING.replace("  - name: gang\n", ""), "lack plugin gang"),
        (PROMISING.replace("allocate, ", ""), "lack action allocate"),
        (PROMISING.replace("allocate", "alocate"), "there is no action 'alocate'"),
        ("tiers: [", "not YAML"),
        ("[]", "own.yaml"),
        ("", "own.yaml"),
        (PROMISING + "#" * MAX_BYTES, f"may have at most {MAX_BYTES} bytes"),
        (
            "a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
            "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]",
            f"more than {MAX_VALUES} values",
        ),
    ],
)
def test_rules_by_which_no_cluster_could_go_are_refused_and_change_nothing(text, why):
    world = World()
    before = world.ask(GetRules())
    with pytest.raises(JobCommandError, match=why):
        world.ask(SetRules(text, "own.yaml"))
    assert world.ask(GetRules()) == before


def test_rules_by_which_a_cycle_fails_are_refused(monkeypatch):
    world = World()
    world.add("n1", CPU=4.0)
    world.job(group(), name="runs")

    def broken(self, session):
        raise ZeroDivisionError("a plugin's defect")

    monkeypatch.setattr("phalanx.scheduler.plugins.reservation.Reservation.open", broken)
    with pytest.raises(JobCommandError, match="a cycle with these rules fails: ZeroDivisionError"):
        world.ask(SetRules(PROMISING, "own.yaml"))
    settle(world)
    assert row(world, "runs").state == "Running"


def test_by_own_rules_places_are_promised_and_a_fill_delays_nobody():
    """A wide job gets a promise for the time at which all running work has ended. Work that would
    end later than that waits, and shorter work is backfilled.
    """
    world = World()
    world.add("n1", CPU=4.0)
    world.ask(SetRules(PROMISING, "own.yaml"))
    timed(world, "runs", 2, 600.0)
    settle(world)
    timed(world, "wide", 4, 600.0)
    world.cycles()
    timed(world, "long", 1, 6000.0)
    timed(world, "short", 1, 60.0)
    settle(world)
    states = {name: row(world, name).state for name in ("runs", "wide", "long", "short")}
    assert states == {"runs": "Running", "wide": "Pending", "long": "Pending", "short": "Running"}
    wide = row(world, "wide")
    assert wide.expected_start.is_promised
    assert "places are promised to it" in str(world.ask(Explain("wide")))
    assert row(world, "long").expected_start.at_s > wide.expected_start.at_s


def test_rules_outlive_the_head():
    world = stored_world()
    world.add("n1", CPU=4.0)
    world.ask(SetRules(PROMISING, "own.yaml"))
    world.write()
    world.restart()
    assert world.ask(GetRules()).text == PROMISING
    world.ask(SetRules(None))
    world.write()
    world.restart()
    assert not world.ask(GetRules()).is_own


def test_rules_that_cannot_be_read_any_more_are_kept_and_not_gone_by(monkeypatch):
    world = stored_world()
    world.ask(SetRules(PROMISING, "own.yaml"))
    world.write()
    caught: list[Exception] = []
    monkeypatch.setattr("tests.world.head.raise_defect", caught.append)
    monkeypatch.delitem(BUILT_IN, "reservation")
    world.restart()
    rules = world.ask(GetRules())
    assert (rules.is_own, rules.text) == (True, PROMISING)
    assert "there is no plugin 'reservation'" in rules.trouble
    assert "capacity" in rules.plugins
    assert len(caught) == 1
