"""The sentences of a plan about how the nodes of podgroups were chosen."""

from __future__ import annotations

from phalanx.scheduler.cycle.config import parse_volcano
from phalanx.scheduler.cycle.cycle import run_cycle
from phalanx.scheduler.cycle.plan import Plan
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.session import CHOICES
from phalanx.scheduler.cycle.specs import (
    NodeSpec,
    PodGroupSpec,
    QueueSpec,
    Shape,
    Snapshot,
    TaskSpec,
)

RULES = """
actions: "allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: {ranks}
"""


def decided(ranks: str, groups: int, members: int = 1) -> Plan:
    """Return the plan for nodes n0 to n9, on each of which ten tasks fit."""
    shape = Shape(request=(("cpu", 1.0),))
    return run_cycle(
        Snapshot(
            config=parse_volcano(RULES.format(ranks=ranks), known_plugins()),
            nodes=tuple(
                NodeSpec(name=f"n{i}", capacity=(("cpu", 10.0), ("pods", 99.0))) for i in range(10)
            ),
            queues=(QueueSpec(name="q"),),
            podgroups=tuple(
                PodGroupSpec(name=f"g{i:02}", queue="q", min_member=members, phase="Inqueue")
                for i in range(groups)
            ),
            tasks=tuple(
                TaskSpec(name=f"g{i:02}-{m:03}", podgroup=f"g{i:02}", shape=shape)
                for i in range(groups)
                for m in range(members)
            ),
        ),
        explains=False,
    )


def test_the_winner_is_told_with_the_scores_of_that_moment() -> None:
    plan = decided("binpack", 3)
    found = {uid: (one.node, one.among, dict(one.scores)) for uid, one in plan.choices.items()}
    assert found == {
        "default/g00": ("n0", 10, {"binpack": 10.0}),
        "default/g01": ("n0", 10, {"binpack": 20.0}),
        "default/g02": ("n0", 10, {"binpack": 30.0}),
    }


def test_a_plugin_that_chooses_by_itself_is_named() -> None:
    (one,) = decided("selector", 1).choices.values()
    assert one.chooser == "selector"


def test_only_the_first_are_noted_and_none_that_got_nothing() -> None:
    assert len(decided("binpack", CHOICES).choices) == CHOICES
    assert len(decided("binpack", CHOICES + 1).choices) == CHOICES
    assert not decided("binpack", 1, members=101).choices
