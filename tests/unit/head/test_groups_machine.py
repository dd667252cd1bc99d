"""Placement groups while messages are lost, duplicated and delayed, nodes die and heads restart;
hypothesis draws the events.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from tests.effort import examples
from tests.unit.head.groups_world import GroupsWorld, amounts

from phalanx.model.lifecycle import CREATED, REMOVED

BUNDLES = st.lists(
    st.sampled_from([{"CPU": 1}, {"CPU": 2}, {"CPU": 4}, {"GPU": 1}, {"GPU": 0.5, "CPU": 1}]),
    min_size=1,
    max_size=4,
)
STRATEGIES = st.sampled_from(["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"])
AT = st.integers(0, 1_000)


class GroupsMachine(RuleBasedStateMachine):
    """Checks that no bundle is usable on two nodes, and that nothing leaks, under any sequence of
    events.
    """

    def __init__(self):
        super().__init__()
        self.world = GroupsWorld()
        self.count = 0
        self.taken = []

    @initialize(nodes=st.integers(1, 3))
    def some_nodes(self, nodes):
        for _ in range(nodes):
            self.join()

    def one_of(self, things, at):
        return things[at % len(things)]

    # ---- what happens

    @rule()
    @precondition(lambda self: len(self.world.nodes) < 4)
    def join(self):
        self.count += 1
        self.world.add(f"n{self.count}", CPU=4, GPU=1)

    @rule(at=AT)
    @precondition(lambda self: len(self.world.nodes) > 1)
    def node_dies(self, at):
        name = self.one_of(list(self.world.nodes), at)
        self.world.kill(name)
        self.taken = [(node, what) for node, what in self.taken if node.name != name]

    @rule(at=AT)
    @precondition(lambda self: self.world.nodes)
    def node_joins_again(self, at):
        node = self.one_of(list(self.world.nodes.values()), at)
        # A connection broke: what was on its way is gone with it.
        self.world.network.cut(node)
        self.world.join(node)

    @rule()
    def head_restarts(self):
        self.world.restart()

    @rule(bundles=BUNDLES, strategy=STRATEGIES)
    def create(self, bundles, strategy):
        self.count += 1
        self.world.create(f"g{self.count}", *bundles, strategy=strategy)

    @rule(at=AT)
    def remove(self, at):
        groups = list(self.world.stored_groups)
        if groups:
            self.world.groups.remove(self.one_of(groups, at), self.world.now)

    @rule(at=AT)
    @precondition(lambda self: self.world.nodes)
    def others_take(self, at):
        """Let tasks take resources without the head's knowledge."""
        node = self.one_of(list(self.world.nodes.values()), at)
        allocation = node.resources.acquire(amounts({"CPU": 1 + at % 3}))
        if allocation is not None:
            self.taken.append((node, allocation))

    @rule(at=AT)
    def others_give(self, at):
        if self.taken:
            node, allocation = self.taken.pop(at % len(self.taken))
            node.resources.release(allocation)

    @rule(at=AT)
    @precondition(lambda self: self.world.on_the_way)
    def deliver(self, at):
        self.world.deliver(self.world.on_the_way.pop(at % len(self.world.on_the_way)))

    @rule()
    @precondition(lambda self: self.world.on_the_way)
    def deliver_all(self):
        self.world.run()

    @rule(at=AT)
    @precondition(lambda self: self.world.on_the_way)
    def lose(self, at):
        self.world.on_the_way.pop(at % len(self.world.on_the_way))

    @rule(at=AT)
    @precondition(lambda self: self.world.on_the_way)
    def send_twice(self, at):
        self.world.on_the_way.append(self.one_of(self.world.on_the_way, at))

    @rule(seconds=st.sampled_from([0.05, 1.0, 4.0]))
    def time_passes(self, seconds):
        self.world.pass_time(seconds)

    # ---- what holds

    def committed(self):
        """Return the living nodes on which each bundle is committed, by (group, index)."""
        return {
            place: names
            for place, held in self.world.held().items()
            if (names := [node for node, is_committed in held if is_committed])
        }

    @invariant()
    def no_bundle_is_usable_on_two_nodes(self):
        for place, nodes in self.committed().items():
            assert len(nodes) == 1, f"bundle {place} is committed on {nodes}"

    @invariant()
    def nobody_hands_out_more_than_there_is(self):
        for node in self.world.nodes.values():
            held = sum(
                (
                    one.pool.resources
                    for group in node.bundles._groups.values()
                    for one in group.values()
                ),
                amounts({}),
            )
            busy = sum((a.resources for n, a in self.taken if n is node), amounts({}))
            total = amounts(node.resources.total())
            assert (held + busy + amounts(node.resources.available())) == total

    @invariant()
    def what_is_created_is_there(self):
        kept = self.committed()
        for group in map(self.world.known, list(self.world.stored_groups)):
            if group.state != CREATED:
                continue
            for index, node in enumerate(group.nodes):
                is_known = node in self.world.nodes
                assert not is_known or kept.get((group.group, index)) == [node]
            if group.strategy == "STRICT_PACK":
                assert len(set(group.nodes)) == 1
            if group.strategy == "STRICT_SPREAD":
                assert len(set(group.nodes)) == len(group.nodes)

    def teardown(self):
        """Check that after the losses every group that fits is placed, and that nothing else is
        held.
        """
        for node, allocation in self.taken:
            node.resources.release(allocation)
        while len(self.world.nodes) < 4:
            self.join()
        self.world.heal()
        self.world.check_settled()
        waiting = [g for g in self.groups() if g.state != CREATED]
        assert all(not g.is_under_way for g in waiting)
        # The oldest of the others make room, until each has been placed or can never be.
        while waiting:
            for group in self.groups():
                if group.state == CREATED:
                    self.world.groups.remove(group.group, self.world.now)
            self.world.heal(3)
            self.world.check_settled()
            left = [g for g in self.groups() if g.state != CREATED]
            placed = len(left) < len(waiting)
            assert placed or all(self.can_never(g) for g in left), [g.waits_for for g in left]
            if not placed:
                break
            waiting = left
        for group in self.groups():
            self.world.groups.remove(group.group, self.world.now)
        self.world.heal(3)
        assert self.world.held() == {}
        for node in self.world.nodes.values():
            assert node.resources.available() == node.resources.total()

    def groups(self):
        known = map(self.world.known, list(self.world.stored_groups))
        return [group for group in known if group.state != REMOVED]

    def can_never(self, group):
        """Whether a group could never fit on four empty nodes of 4 CPUs and 1 GPU."""
        bundles = group.bundles
        whole = amounts({"CPU": 4, "GPU": 1})
        if group.strategy == "STRICT_PACK":
            return not sum(bundles, amounts({})) <= whole
        if group.strategy == "STRICT_SPREAD":
            return len(bundles) > 4
        units = sum(bundle.get("GPU", 0) for bundle in bundles)
        return units > 4 * 10_000 or bool(group.infeasible)


TestGroups = GroupsMachine.TestCase
TestGroups.settings = settings(max_examples=examples(60), stateful_step_count=40)
