"""Virtual clusters: the rules on the documentation page are accepted, missing cells cause warnings,
and each queue gets its cells.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import example, given, settings
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


PLUGINS = "priority, gang(on=[jobOrder,jobReady,jobPipelined,jobStarving]), virtual-clusters"
OTHER_PLUGINS = "predicates, binpack, whole-gang"
Gang = tuple[str, int, int]
"""A queue, the number of members, and the GPUs of a member."""
Submitted = tuple[str, int, int, int, int]
"""A queue, the number of members, the GPUs of a member, the priority, and the podgroup that ends
afterwards (-1 for none).
"""


class World(NamedTuple):
    """A cluster with promises. `wholes`: gangs that need all cells of their queues."""

    rules: str
    wholes: tuple[Gang, ...]


def world(arguments: str, nodes: Sequence[str], *wholes: Gang) -> World:
    lines = [
        f"use allocate, preempt, reclaim | {PLUGINS}({arguments}) | {OTHER_PLUGINS}",
        "case history",
        *(f"node n{i} 64c 64G {labels}" for i, labels in enumerate(nodes)),
        *(f"queue {queue}" for queue in "abcd"),
    ]
    return World("\n".join(lines) + "\n", wholes)


WORLDS = (
    world(
        "cells={a: {rack: 1}, b: {node: 1}, c: {card: 3}}",
        ["4gpu rack=r", "4gpu rack=r", "4gpu rack=s", "4gpu rack=s"],
        ("a", 2, 4), ("a", 8, 1), ("b", 1, 4), ("b", 2, 2), ("c", 3, 1),
    ),
    world(
        "cells={a: {node: 2}, b: {node: 2}}",
        ["4gpu", "4gpu", "4gpu", "4gpu"],
        ("a", 2, 4), ("a", 4, 2), ("b", 2, 4), ("b", 8, 1),
    ),
    world(
        "levels={switch: 2}; cells={a: {rack: 1}, b: {switch: 3}, c: {card: 2}, d: {node: 2}}",
        [f"4gpu rack=r{i // 2}" for i in range(6)],
        ("a", 2, 4), ("a", 4, 2), ("b", 3, 2), ("b", 6, 1), ("c", 2, 1), ("d", 2, 4), ("d", 8, 1),
    ),
    world(
        "levels={pod: pod}; cells={a: {pod: 1}, b: {rack: 1}, c: {node: 1}, d: {card: 4}}",
        [f"4gpu rack=r{i // 2} pod=p{i // 4}" for i in range(8)],
        ("a", 4, 4), ("a", 8, 2), ("b", 2, 4), ("c", 1, 4), ("c", 4, 1), ("d", 4, 1),
    ),
    world(
        "levels={two: 2, four: 4}; cells={a: {four: 1}, b: {two: 4}, c: {card: 4}, d: {node: 1}}",
        ["8gpu", "8gpu", "8gpu"],
        ("a", 1, 4), ("a", 2, 2), ("b", 4, 2), ("b", 8, 1), ("c", 4, 1), ("d", 1, 8), ("d", 8, 1),
    ),
)  # fmt: skip
CYCLES = 12
"""The number of cycles after which each queue must have its cells. Most have them after two."""


def gang_lines(name: str, queue: str, members: int, gpus: int, priority: int) -> str:
    copies = f" x{members}" if members > 1 else ""
    cards = f" {gpus}gpu" if gpus else ""
    return (
        f"gang {name} {queue} min={members} prio={priority}\n"
        f"task {name} {name} 1c 1G{cards} prio={priority}{copies}\n"
    )


@cache
def empty(rules: str) -> Snapshot:
    return snapshot_of(cases(rules)[0])


@cache
def gang_of(rules: str, queue: str, members: int, gpus: int, priority: int) -> Snapshot:
    """Return a snapshot with only this gang, which has the name gang."""
    return snapshot_of(cases(rules + gang_lines("gang", queue, members, gpus, priority))[0])


def submit(rules: str, snapshot: Snapshot, name: str, gang: tuple[str, int, int, int]) -> Snapshot:
    more = gang_of(rules, *gang)
    (podgroup,) = more.podgroups
    tasks = (
        msgspec.structs.replace(t, name=t.name.replace("gang", name), podgroup=name)
        for t in more.tasks
    )
    return msgspec.structs.replace(
        snapshot,
        podgroups=(*snapshot.podgroups, msgspec.structs.replace(podgroup, name=name)),
        tasks=(*snapshot.tasks, *tasks),
    )


def end(snapshot: Snapshot, which: int) -> Snapshot:
    """End one podgroup."""
    gone = snapshot.podgroups[which % len(snapshot.podgroups)].name
    return msgspec.structs.replace(
        snapshot,
        podgroups=tuple(g for g in snapshot.podgroups if g.name != gone),
        tasks=tuple(t for t in snapshot.tasks if t.podgroup != gone),
    )


def cycle(one: World, snapshot: Snapshot) -> Snapshot:
    """Run a cycle, and return the next snapshot. In it the podgroups for which this cycle evicts
    come first, as at a head. Check that other queues evict no guaranteed work.
    """
    plan = run_cycle(snapshot, shells=lent())
    groups = {g.uid: g for g in snapshot.podgroups}
    tasks = {t.uid: t for t in snapshot.tasks}
    with_cells = {queue for queue, _, _ in one.wholes}
    for eviction in plan.evictions:
        task = tasks[eviction.task]
        queue = groups[f"default/{task.podgroup}"].queue
        holds_cells = queue in with_cells and "nvidia.com/gpu" in dict(task.shape.request)
        if holds_cells and task.priority >= 0 and eviction.reason != "whole-gang":
            assert groups[eviction.claimant].queue == queue
    claimants = {eviction.claimant for eviction in plan.evictions}
    then = after(snapshot, plan)
    podgroups = (msgspec.structs.replace(g, promised=g.uid in claimants) for g in then.podgroups)
    return msgspec.structs.replace(then, podgroups=tuple(podgroups))


def waiting_after(one: World, history: Sequence[Submitted], wholes: Sequence[Gang]) -> set[str]:
    """Return the queues whose gangs still wait, although each gang asks only for cells of its
    queue.
    """
    now = empty(one.rules)
    for i, (queue, members, gpus, priority, ends) in enumerate(history):
        now = submit(one.rules, now, f"g{i}", (queue, members, gpus, priority))
        now = cycle(one, now)
        if ends >= 0:
            now = end(now, ends)
    for queue, members, gpus in wholes:
        now = submit(one.rules, now, f"whole-{queue}", (queue, members, gpus, 2))
    waiting = {f"whole-{queue}" for queue, _, _ in wholes}
    for _ in range(CYCLES):
        now = cycle(one, now)
        waiting &= {t.podgroup for t in now.tasks if t.phase == "Pending"}
        if not waiting:
            break
    return waiting


@st.composite
def histories(draw: st.DrawFn, most: int) -> tuple[World, list[Submitted], list[Gang]]:
    one = draw(st.sampled_from(WORLDS))
    gang = st.tuples(
        st.sampled_from("abcd"),
        st.integers(1, 4),
        st.integers(0, 4),
        st.sampled_from([-2, -1, 0, 1]),
        st.integers(-1, 9),
    )
    history = draw(st.lists(gang, max_size=most))
    wholes = {whole[0]: whole for whole in draw(st.permutations(one.wholes))}
    return one, history, list(wholes.values())


@settings(max_examples=6)
@example(
    (
        WORLDS[0],
        [
            ("a", 2, 3, -1, -1), ("a", 3, 2, -1, -1), ("a", 1, 3, -1, -1), ("a", 1, 3, -1, -1),
            ("a", 3, 1, -1, -1), ("c", 1, 1, 0, -1), ("b", 1, 1, 0, -1), ("d", 1, 2, -1, -1),
        ],
        [("a", 2, 4), ("b", 1, 4), ("c", 3, 1)],
    )
)  # fmt: skip
@given(histories(8))
def test_each_queue_gets_its_cells_after_any_history(
    drawn: tuple[World, list[Submitted], list[Gang]],
) -> None:
    assert not waiting_after(*drawn)


@pytest.mark.slow
@settings(max_examples=200)
@given(histories(16))
def test_each_queue_gets_its_cells_after_any_long_history(
    drawn: tuple[World, list[Submitted], list[Gang]],
) -> None:
    assert not waiting_after(*drawn)
