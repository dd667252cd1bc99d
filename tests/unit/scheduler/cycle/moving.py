"""Random events on a cluster whose rules move running work, and checks of each cycle."""

from __future__ import annotations

import random
from collections.abc import Mapping

from msgspec.structs import replace
from tests.present import present

from phalanx.scheduler.cycle.config import parse_volcano
from phalanx.scheduler.cycle.cycle import run_cycle
from phalanx.scheduler.cycle.plan import Plan
from phalanx.scheduler.cycle.registry import known_plugins
from phalanx.scheduler.cycle.specs import (
    NodeSpec,
    PodGroupSpec,
    QueueSpec,
    Shape,
    Snapshot,
    TaskSpec,
)
from phalanx.scheduler.devices.cards import CardAsk, Taken, card_ask, pick_cards
from phalanx.scheduler.devices.quantities import SCALE, to_units

SETTLE_S = 600.0
RULES = parse_volcano(
    """
actions: "allocate, preempt, reclaim, consolidate"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
    enableReclaimable: false
  - name: conformance
  - name: capacity
    enableHierarchy: true
- plugins:
  - name: whole-gang
  - name: gpu-sharing
  - name: predicates
  - name: nodeorder
""",
    known_plugins(),
)
GPU = "nvidia.com/gpu"


class History:
    """A cluster through many cycles. Work arrives and ends, and leaves its nodes after a while.

    `step` runs one cycle, checks its plan, and carries the plan out.
    """

    def __init__(self, seed: int) -> None:
        self._draw = draw = random.Random(seed)
        self._arrived = 0
        self._moved_at: dict[str, float] = {}
        self._homes: Mapping[str, str] = {}
        """The nodes that the last plan set aside."""
        self._cards: dict[str, tuple[str, Taken]] = {}
        """The node of each placed task, and the cards that the node chose for it."""
        self.moves = self.seated = 0
        self.snapshot = Snapshot(
            config=RULES,
            nodes=tuple(
                NodeSpec(
                    name=f"n{i}",
                    capacity=(
                        ("cpu", 64.0),
                        ("pods", 99.0),
                        (GPU, float(draw.choice((1, 2, 2, 4)))),
                    ),
                )
                for i in range(draw.randint(3, 6))
            ),
            queues=(
                QueueSpec(name="root"),
                QueueSpec(name="a"),
                QueueSpec(name="b", capability=draw.choice(((), ((GPU, 4.0),)))),
            ),
            now=1e6,
        )

    def step(self) -> Plan:
        """Let time pass, run a cycle, and carry its plan out."""
        draw = self._draw
        for _ in range(draw.choice((0, 0, 1, 1, 2))):
            self._arrive()
        for group in self.snapshot.podgroups:
            if draw.random() < 0.08:
                self._end(group.name)
        passes_s = draw.choice((0.0, 5.0, 300.0, 700.0))
        self.snapshot = replace(self.snapshot, now=self.snapshot.now + passes_s)
        plan = run_cycle(self.snapshot)
        self._check(plan)
        self._carry_out(plan)
        return plan

    # ---- events ------------------------------------------------------------------------------

    def _arrive(self) -> None:
        draw, name = self._draw, f"g{self._arrived:03d}"
        self._arrived += 1
        gpus = draw.choice((0.25, 0.5, 0.5, 0.75, 1.0, 2.0, 2.0, 4.0))
        size = draw.choice((1, 1, 1, 1, 2))
        said = draw.choice(((), (("phalanx/movable", "10m"),), (("phalanx/movable", "10m"),)))
        group = PodGroupSpec(
            name=name,
            queue=draw.choice("ab"),
            min_member=draw.choice((1, size, size)),
            priority=draw.choice((0, 0, 0, 1)),
            phase="Inqueue",
            created=self.snapshot.now,
            annotations=said,
        )
        tasks = [
            TaskSpec(
                name=f"{name}-{k}",
                podgroup=name,
                shape=Shape(request=(("cpu", 1.0), (GPU, gpus))),
                priority=group.priority,
            )
            for k in range(size)
        ]
        self.snapshot = replace(
            self.snapshot,
            podgroups=(*self.snapshot.podgroups, group),
            tasks=(*self.snapshot.tasks, *tasks),
        )

    def _chosen(self, task: TaskSpec, node: str) -> Taken:
        """Return the cards that a node chooses for a task. The node knows the cards of the tasks
        that run on it.
        """
        (count,) = (int(dict(n.capacity)[GPU]) for n in self.snapshot.nodes if n.name == node)
        left = dict.fromkeys(range(count), SCALE)
        for at, taken in self._cards.values():
            if at == node:
                for number, units in taken:
                    left[number] -= units
        request = {"GPU": to_units(dict(task.shape.request)[GPU])}
        ask = card_ask(request) or CardAsk(request["GPU"] // SCALE)
        return present(pick_cards(left, ask))

    def _end(self, name: str) -> None:
        for task in self.snapshot.tasks:
            if task.podgroup == name:
                self._cards.pop(task.uid, None)
        self.snapshot = replace(
            self.snapshot,
            podgroups=tuple(g for g in self.snapshot.podgroups if g.name != name),
            tasks=tuple(t for t in self.snapshot.tasks if t.podgroup != name),
        )

    # ---- checks ------------------------------------------------------------------------------

    def _check(self, plan: Plan) -> None:
        snapshot = self.snapshot
        groups = {g.uid: g for g in snapshot.podgroups}
        tasks = {t.uid: t for t in snapshot.tasks}
        evicted = {e.task: e for e in plan.evictions}
        of_group: dict[str, list[TaskSpec]] = {}
        for t in snapshot.tasks:
            of_group.setdefault(f"default/{t.podgroup}", []).append(t)
        self._check_homes(plan, tasks)
        moved = {job.podgroup for moves in plan.moves for job in moves.jobs}
        assert {tasks[t].podgroup for t, e in evicted.items() if e.reason == "consolidate"} == {
            uid.removeprefix("default/") for uid in moved
        }
        for moves in plan.moves:
            self.moves += 1
            claimant = groups[moves.claimant]
            promised = [t for t in of_group[claimant.uid] if t.uid in plan.pipelined]
            running = [t for t in of_group[claimant.uid] if t.phase == "Running"]
            assert len(promised) + len(running) >= claimant.min_member
            assert all(plan.homes[t.uid] == plan.pipelined[t.uid] for t in promised)
            for job in moves.jobs:
                group = groups[job.podgroup]
                assert group.annotations, "only work that says so moves"
                assert group.priority <= claimant.priority
                last = self._moved_at.get(group.uid, -SETTLE_S)
                assert snapshot.now >= last + SETTLE_S, "no work moves again soon"
                self._moved_at[group.uid] = snapshot.now
                for t in of_group[group.uid]:
                    assert t.started is not None
                    assert snapshot.now >= t.started + SETTLE_S
                    assert evicted[t.uid].move_to == plan.homes[t.uid]

    def _check_homes(self, plan: Plan, tasks: Mapping[str, TaskSpec]) -> None:
        """Check that the node to which a task is to move (its home) stays the same until the task
        has left its old node, and that the task then gets it.
        """
        for uid, node in self._homes.items():
            if uid not in tasks:
                continue
            has_left = tasks[uid].phase == "Pending"
            if uid in plan.binds:
                assert has_left
                assert plan.binds[uid] == node
                self.seated += 1
            else:
                assert plan.homes[uid] == node
        self._homes = plan.homes
        free = {n.name: dict(n.capacity)[GPU] for n in self.snapshot.nodes}
        for task in tasks.values():
            at = plan.binds.get(task.uid, task.node)
            if at:
                free[at] -= dict(task.shape.request)[GPU]
        assert all(left >= 0 for left in free.values())
        for uid, node in plan.homes.items():
            free[node] -= dict(tasks[uid].shape.request)[GPU]
        for task in tasks.values():  # what leaves makes room for it
            if task.phase == "Releasing" or task.uid in plan.evicted:
                free[task.node] += dict(task.shape.request)[GPU]
        assert all(left >= 0 for left in free.values())

    # ---- carrying a plan out -----------------------------------------------------------------

    def _carry_out(self, plan: Plan) -> None:
        now, draw, evicted = self.snapshot.now, self._draw, set(plan.evicted)

        of_name = {t.uid: t for t in self.snapshot.tasks}
        for uid, node in plan.binds.items():
            self._cards[uid] = node, self._chosen(of_name[uid], node)

        def after(t: TaskSpec) -> TaskSpec:
            home = plan.homes.get(t.uid, "")
            nominated = plan.nominations.get(t.uid, "")
            if t.uid in plan.binds:
                node, taken = self._cards[t.uid]
                card = taken[0][0] if taken[0][1] < SCALE else -1
                return replace(
                    t,
                    node=node,
                    phase="Running",
                    started=now,
                    home="",
                    nominated_node="",
                    card=card,
                )
            if t.uid in evicted or t.phase == "Releasing":
                leaves = draw.random() < 0.6
                if leaves:
                    self._cards.pop(t.uid)
                return replace(
                    t,
                    node="" if leaves else t.node,
                    phase="Pending" if leaves else "Releasing",
                    started=None if leaves else t.started,
                    home=home,
                    card=-1 if leaves else t.card,
                )
            return replace(t, home=home, nominated_node=nominated)

        self.snapshot = replace(
            self.snapshot,
            tasks=tuple(map(after, self.snapshot.tasks)),
            podgroups=tuple(replace(g, phase="Inqueue") for g in self.snapshot.podgroups),
        )
