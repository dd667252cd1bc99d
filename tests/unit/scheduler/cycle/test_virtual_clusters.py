"""The rules of the page on virtual clusters are accepted, and missing cells are warned of."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.scheduler.cycle.lines import cases
from tests.unit.scheduler.cycle.test_tables import snapshot_of

from phalanx.head.gangs.rules import RulesRow, read_rules
from phalanx.scheduler.cycle.aftermath import after
from phalanx.scheduler.cycle.cycle import run_cycle
from phalanx.scheduler.cycle.specs import Snapshot
from phalanx.scheduler.forecast.planner import lent

PAGE = Path(__file__).parents[4] / "docs/howto/virtual-clusters.md"


def test_the_rules_of_the_page_are_accepted() -> None:
    rules = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    config = read_rules(RulesRow(text=rules[0], file="rules.yaml"))
    assert "virtual-clusters" in config.plugin_names()


SMALL = """
use allocate | gang, virtual-clusters(cells={a: {node: 2}, b: {rack: 1}}) | predicates
case small
node n 4c 4G 4gpu rack=r
node m 4c 4G 4gpu rack=s
queue a
queue b
"""


@pytest.mark.parametrize("node", ["", "node o 4c 4G 4gpu rack=t"])
def test_missing_cells_are_warned_of(node: str) -> None:
    warnings = run_cycle(snapshot_of(cases(SMALL + node)[0])).warnings
    said = "virtual-clusters: the cluster lacks 1 of the cells of level node"
    assert [w.startswith(said) for w in warnings] == ([] if node else [True])


RULES = """
use allocate, preempt, reclaim | priority, gang(on=[jobOrder,jobReady,jobPipelined,jobStarving]), \
virtual-clusters(cells={a: {rack: 1}, b: {node: 1}, c: {card: 3}}) | predicates, binpack, whole-gang
case history
node n0 64c 64G 4gpu rack=r
node n1 64c 64G 4gpu rack=r
node m0 64c 64G 4gpu rack=s
node m1 64c 64G 4gpu rack=s
queue a
queue b
queue c
queue d
"""
WHOLE = {"a": (2, 4), "b": (1, 4), "c": (3, 1)}
"""For each queue, the members of a gang that needs all of its cells, and the GPUs of a member."""
Submitted = tuple[str, int, int, int, bool]


def gang_lines(name: str, queue: str, members: int, gpus: int, priority: int) -> str:
    copies = f" x{members}" if members > 1 else ""
    return (
        f"gang {name} {queue} min={members} prio={priority}\n"
        f"task {name} {name} 1c 1G {gpus}gpu prio={priority}{copies}\n"
    )


def submit(snapshot: Snapshot, lines: str) -> Snapshot:
    more = snapshot_of(cases(RULES + lines)[0])
    return msgspec.structs.replace(
        snapshot,
        podgroups=(*snapshot.podgroups, *more.podgroups),
        tasks=(*snapshot.tasks, *more.tasks),
    )


def end(snapshot: Snapshot, which: int) -> Snapshot:
    """End one podgroup."""
    gone = snapshot.podgroups[which % len(snapshot.podgroups)].name
    return msgspec.structs.replace(
        snapshot,
        podgroups=tuple(g for g in snapshot.podgroups if g.name != gone),
        tasks=tuple(t for t in snapshot.tasks if t.podgroup != gone),
    )


def cycle(snapshot: Snapshot) -> Snapshot:
    """Run a cycle. Podgroups for which it evicts have their turns first in the next one, as in a
    head.
    """
    plan = run_cycle(snapshot, shells=lent())
    claimants = {one.claimant for one in plan.evictions}
    then = after(snapshot, plan)
    groups = (msgspec.structs.replace(g, promised=g.uid in claimants) for g in then.podgroups)
    return msgspec.structs.replace(then, podgroups=tuple(groups))


@pytest.mark.slow
@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcd"),
            st.integers(1, 3),
            st.integers(1, 4),
            st.sampled_from([-1, 0]),
            st.booleans(),
        ),
        max_size=12,
    ),
    st.permutations("abc"),
)
def test_each_queue_gets_its_cells_after_any_history(
    history: list[Submitted], order: list[str]
) -> None:
    """Fails for some histories, as docs/howto/virtual-clusters.md says under Limits."""
    now = snapshot_of(cases(RULES)[0])
    for i, (queue, members, gpus, priority, ends) in enumerate(history):
        now = submit(now, gang_lines(f"g{i}", queue, members, gpus, priority))
        now = cycle(now)
        if ends:
            now = end(now, i)
    for queue in order:
        members, gpus = WHOLE[queue]
        now = submit(now, gang_lines(f"whole-{queue}", queue, members, gpus, 1))
    for _ in range(len(history) + 6):
        now = cycle(now)
    waiting = {t.podgroup for t in now.tasks if t.phase == "Pending"}
    assert not waiting & {f"whole-{queue}" for queue in order}
