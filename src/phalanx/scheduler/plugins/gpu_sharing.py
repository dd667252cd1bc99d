"""The plugin gpu-sharing: finds room on cards for each task that asks for GPU memory or for a
share.

The columns of a cycle have only sums, in which the halves of two cards look like one whole card. If
any task requests GPU memory, a mode of sharing or a part of a card, this plugin counts each card
separately, as nodes do (`scheduler.devices.cards`). It turns away nodes that have too few cards
with room. A node's cards are read from its capacity `gpu_memory` or, if the cards differ, from its
`devices`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, ClassVar

import numpy as np

from phalanx.model.gpu_sharing import BY_MPS, GPU, MEMORY, PROFILE
from phalanx.scheduler.cycle import jobs as j
from phalanx.scheduler.cycle.accepted import Accepted
from phalanx.scheduler.cycle.amounts import Counts, Flags
from phalanx.scheduler.cycle.arguments import Arguments
from phalanx.scheduler.cycle.equivalence_class import EquivalenceClass
from phalanx.scheduler.cycle.rows import NEVER, TOUCHED, Ask, Change, Filter, Indexes, Rows
from phalanx.scheduler.cycle.session import Session
from phalanx.scheduler.cycle.specs import NodeSpec
from phalanx.scheduler.devices.cards import CardAsk, Cards, Taken, card_ask
from phalanx.scheduler.devices.quantities import SCALE, from_units, to_units
from phalanx.scheduler.plugin_parts.card_states import CardStates, equal_nodes
from phalanx.scheduler.plugin_parts.devices import numbered_devices

GPUS = "nvidia.com/gpu"
MAX_CARDS = 256
"""The largest number of cards of a node. Further cards are ignored."""
_MIB = 2**20
_HOLDING = (j.BOUND, j.BINDING, j.ALLOCATED, j.RUNNING, j.RELEASING)
"""The states of tasks that hold cards now."""


class GpuSharing:
    """The plugin gpu-sharing. It takes no arguments."""

    name = "gpu-sharing"
    accepts: ClassVar[Accepted] = {}

    def __init__(self, arguments: Arguments) -> None:
        pass

    def open(self, session: Session) -> None:
        cluster = self._cluster = session.cluster
        if not any(k.shape.shares_cards for k in cluster.eq_classes):
            return
        self._gpu = cluster.dims.index.get(GPUS, -1)
        if self._gpu < 0:
            return
        self._asks = {k.index: _ask(k) for k in cluster.eq_classes}
        self._states = CardStates()
        self._at: Counts | None = None
        """The number of each node's state; None until the first question about cards."""
        self._held: dict[int, Taken] = {}
        """The cards of tasks that were placed in this cycle."""
        self._now: dict[int, int] = {}
        """The number of a node's present state, with the cards of leaving tasks and without those
        of promised tasks. Only nodes with such tasks have one.
        """
        self._held_now: dict[int, Taken] = {}
        """For each task that was placed in this cycle, its cards in the present state of its node.
        """
        self._left: dict[int, Taken] = {}
        """The cards of tasks that were evicted in this cycle."""
        counts = cluster.capacity[:, self._gpu] // 1000
        self._counts = numbered_devices(session, self.name, counts, MAX_CARDS)
        rule = Filter(
            reason="gpu-memory",
            passes=self._passes,
            changes=self._changes,
            curable=True,
            detail=self._detail,
            passes_beside_leaving=self._passes_beside_leaving,
        )
        session.add("filter", self.name, rule)
        session.add("changed", self.name, self._changed)

    def _changes(self, eq_class: EquivalenceClass) -> int:
        return NEVER if self._asks[eq_class.index] is None else TOUCHED

    def _nodes(self) -> Counts:
        """Return, for each node, the number of the state that its cards are in (see
        `CardStates`).
        """
        if self._at is None:
            self._at = self._first_states()
        return self._at

    def _first_states(self) -> Counts:
        """Return, for each node, the number of the state of its cards before the cycle moves work.

        Tasks on the node and work outside the snapshot hold cards: first the tasks whose card is
        known, then tasks with whole cards. In the returned states the cards of leaving tasks are
        free. In the present states (`_now`) they are not.
        """
        cluster, states = self._cluster, self._states
        kinds, kind_of = cluster.described(self.name, _kinds)
        tasks, nodes, of_class, on_card = self._holders(kinds, kind_of)
        leaves = np.array(cluster.status, dtype=np.int64)[tasks] == j.RELEASING
        starts = np.searchsorted(nodes, np.arange(len(cluster.nodes) + 1))
        self._place_of = np.full(len(cluster.tasks), -1, dtype=np.int64)
        """The index of each task among the tasks of its node that hold cards; -1 for leaving tasks
        and for tasks without cards.
        """
        self._place_of[tasks] = np.where(leaves, -1, np.arange(len(tasks)) - starts[nodes])
        first, self._group_of = equal_nodes(
            kind_of, self._counts, _holding_kinds(of_class, on_card, leaves), starts
        )
        self._takens: list[list[Taken]] = []
        """For each group of equal nodes: the cards of each task, at the task's index in
        `_place_of`.
        """
        found: list[int] = []
        present: dict[int, int] = {}
        """The present state of each group with leaving tasks."""
        for group, node in enumerate(first.tolist()):
            state = states.free(int(self._counts[node]), *kinds[kind_of[node]])
            takens: list[Taken] = []
            rows = slice(starts[node], starts[node + 1])
            for index, card in zip(of_class[rows].tolist(), on_card[rows].tolist(), strict=True):
                ask = self._asks[index] or CardAsk(1)
                state, taken = (
                    states.take(state, ask) if card < 0 else states.take_card(state, ask, card)
                )
                takens.append(taken)
            if leaves[rows].any():
                present[group] = state
                for taken in compress(takens, leaves[rows]):
                    state = states.give_back(state, taken)
            found.append(state)
            self._takens.append(takens)
        at = np.array(found, dtype=np.int64)[self._group_of]
        if present:
            apart = np.flatnonzero(np.isin(self._group_of, list(present))).tolist()
            self._now = {node: present[int(self._group_of[node])] for node in apart}
        for node in cluster.nodes_of_others():
            taken_there = cluster.taken_by_others(node, self._gpu)
            at[node] = self._with_others(int(at[node]), taken_there)
            if node in self._now:
                self._now[node] = self._with_others(self._now[node], taken_there)
        self._promise(at)
        return at

    def _promise(self, at: Counts) -> None:
        """Assign cards to the tasks that have a promised place."""
        cluster = self._cluster
        if not cluster.is_apart:
            return
        for t in np.flatnonzero(np.array(cluster.status) == j.PIPELINED).tolist():
            ask = self._asks[cluster.eq_class[t].index]
            if ask is not None:
                node = cluster.node_of[t]
                self._now.setdefault(node, int(at[node]))
                at[node], self._held[t] = self._states.take(int(at[node]), ask)

    def _holders(
        self, kinds: Sequence[tuple[int, Cards]], kind_of: Counts
    ) -> tuple[Indexes, Counts, Counts, Counts]:
        """Return four arrays: the tasks that hold cards, their nodes, the indexes of their classes,
        and their card numbers. A number is -1 unless the task has a part of one known card. The
        tasks are sorted as `_first_states` needs them, and equal tasks follow each other.

        On nodes whose cards are alike, the cards get new numbers, so that equal nodes look equal.
        """
        cluster = self._cluster
        holds = np.array([ask is not None for ask in self._asks.values()])
        shares = np.array([bool(ask and ask.mode) for ask in self._asks.values()])
        of_class = np.array([k.index for k in cluster.eq_class], dtype=np.int64)
        nodes = np.array(cluster.node_of, dtype=np.int64)
        there = np.flatnonzero((nodes >= 0) & holds[of_class] & np.isin(cluster.status, _HOLDING))
        at, classes = nodes[there], of_class[there]
        cards = np.full(len(there), -1, dtype=np.int64)
        if cluster.cards:
            of_task = np.full(len(nodes), -1, dtype=np.int64)
            of_task[list(cluster.cards)] = list(cluster.cards.values())
            cards = np.where(shares[classes], of_task[there], -1)
            order = np.lexsort((cards, classes, at))
            there, at, classes, cards = there[order], at[order], classes[order], cards[order]
            alike = np.array([len(set(one.memory)) < 2 for _, one in kinds], dtype=np.bool_)
            known = np.flatnonzero((cards >= 0) & alike[kind_of[at]])
            cards[known] = _renumbered(at[known], cards[known])
        turn = np.where(cards >= 0, 0, 1 + shares[classes])
        order = np.lexsort((cards, classes, turn, at))
        return there[order], at[order], classes[order], cards[order]

    def _with_others(self, state: int, amount: int) -> int:
        """Return the state that follows when work outside the snapshot takes `amount` thousandths
        of GPUs.
        """
        whole, share = divmod(amount * SCALE // 1000, SCALE)
        if whole:
            state, _ = self._states.take(state, CardAsk(whole))
        if share:
            state, _ = self._states.take(state, card_ask({GPU: share}) or CardAsk(1))
        return state

    def _passes(self, rows: Rows, ask: Ask) -> Flags:
        wanted = self._asks[ask.eq_class.index]
        if wanted is None or not len(rows):
            return np.ones(len(rows), dtype=np.bool_)
        before = rows.more_tasks()
        most = before + 1 if isinstance(before, int) else int(before.max()) + 1
        passes: Flags = self._states.rooms(self._nodes()[rows.index], wanted, most) > before
        return passes

    def _passes_beside_leaving(self, rows: Rows, ask: Ask) -> Flags:
        wanted = self._asks[ask.eq_class.index]
        passes = np.ones(len(rows), dtype=np.bool_)
        self._nodes()
        if wanted is None or not self._now:
            return passes
        apart = np.isin(rows.index, list(self._now))
        if apart.any():
            before = rows.more_tasks()
            earlier = before if isinstance(before, int) else before[apart]
            states = np.array([self._now[node] for node in rows.index[apart].tolist()])
            most = int(np.max(earlier)) + 1
            passes[apart] = self._states.rooms(states, wanted, most) > earlier
        return passes

    def _detail(self, ask: Ask) -> Mapping[str, Any] | None:
        wanted = self._asks[ask.eq_class.index]
        if wanted is None:
            return None
        states = np.unique(self._nodes()).tolist()
        most = max((self._states.most(state, wanted) for state in states), default=0)
        if wanted.memory:
            asked, resource = float(wanted.memory), MEMORY
        else:
            asked, resource = (
                from_units(wanted.share * (wanted.count if not wanted.mode else 1)),
                GPU,
            )
        return {
            "resource": resource,
            "asked": asked,
            "most": from_units(most),
            "cards": wanted.count,
            "mode": " shared by MPS" if wanted.mode == BY_MPS else "",
        }

    def _changed(self, change: Change) -> None:
        ask = self._asks[change.eq_class.index]
        if ask is None:
            return
        if self._at is None:
            moved = self._cluster.node_of[change.tasks[0]] not in (change.nodes[0], -1)
            if not moved:
                return  # the columns show the change when states are first needed
            self._nodes()  # the columns show a moving task only at its old place
        at, states, held = self._nodes(), self._states, self._held
        after = states.after(ask)
        places = self._place_of.take(change.tasks).tolist()
        for t, node, place in zip(change.tasks, change.nodes, places, strict=True):
            state = int(at[node])
            if change.sign > 0:
                if place < 0 and t not in held:
                    taken = self._arrive(t, node, ask)
                    at[node], held[t] = (
                        states.take_these(state, ask, taken)
                        if taken
                        else after.get(state) or states.take(state, ask)
                    )
                continue
            if place >= 0:
                self._place_of[t] = -1
                taken = self._takens[self._group_of[node]][place]
            elif (taken := held.pop(t, ())) == ():
                continue
            self._leave(t, node, taken)
            at[node] = states.give_back(state, taken)

    def _arrive(self, t: int, node: int, ask: CardAsk) -> Taken:
        """Assign cards to a task that gets a place, if the node's present state differs from its
        later state. They are assigned in the present state.

        Returns the cards that the task must have in the later state, too; () for any cards.
        """
        status = self._cluster.status[t]
        if status == j.ALLOCATED and node in self._now:
            self._now[node], taken = self._states.take(self._now[node], ask)
            self._held_now[t] = taken
            return taken
        if status not in (j.ALLOCATED, j.PENDING, j.PIPELINED, j.RELEASING):
            return self._left.pop(t, ())  # an eviction was taken back
        if status != j.ALLOCATED:
            self._now.setdefault(node, int(self._nodes()[node]))
        return ()

    def _leave(self, t: int, node: int, taken: Taken) -> None:
        """Update the node's present state for a task that loses its place. An evicted task still
        runs, so it keeps its cards, `taken`; they are noted for the case that the eviction is taken
        back. The cards of a task that got its place in this cycle become free.
        """
        is_evicted = self._cluster.status[t] == j.RELEASING and self._cluster.node_of[t] == node
        if is_evicted:
            self._now.setdefault(node, int(self._nodes()[node]))
            self._left[t] = taken
        elif (held := self._held_now.pop(t, None)) is not None:
            self._now[node] = self._states.give_back(self._now[node], held)


def _renumbered(nodes: Counts, cards: Counts) -> Counts:
    """Return the cards with new numbers: the cards of each node are numbered in the order in which
    they first appear. `nodes`: the node of each card, in ascending order.
    """
    keys, first, of_key = np.unique(
        nodes * MAX_CARDS + cards, return_index=True, return_inverse=True
    )
    order = np.argsort(first)
    in_order = keys[order] // MAX_CARDS
    numbers = np.empty(len(keys), dtype=np.int64)
    numbers[order] = np.arange(len(keys)) - np.searchsorted(in_order, in_order)
    found: Counts = numbers[of_key]
    return found


def _holding_kinds(of_class: Counts, on_card: Counts, leaves: Flags) -> Counts:
    """Return a number for each task. Two tasks have equal numbers if they have the same class, hold
    the same card, and both leave or both stay.
    """
    if not leaves.any() and (not len(on_card) or on_card.max() < 0):
        return of_class
    keys = (of_class * (MAX_CARDS + 1) + on_card + 1) * 2 + leaves
    found: Counts = np.unique(keys, return_inverse=True)[1]
    return found


def _kinds(nodes: Sequence[NodeSpec]) -> tuple[list[tuple[int, Cards]], Counts]:
    """Return the kinds of nodes, and for each node the index of its kind. A kind is the memory of a
    card in bytes, and facts about the cards.
    """
    numbers: dict[tuple[int, Cards], int] = {}
    known: dict[object, int] = {}
    of_nodes: list[int] = []
    for node in nodes:
        described = (node.capacity, node.devices)
        number = known.get(described)
        if number is None:
            memory = int(dict(node.capacity).get(MEMORY, 0))
            cards = Cards(memory=tuple(int(mib * _MIB) for mib, _ in node.devices))
            number = known[described] = numbers.setdefault((memory, cards), len(numbers))
        of_nodes.append(number)
    return list(numbers), np.array(of_nodes, dtype=np.int64)


def _ask(eq_class: EquivalenceClass) -> CardAsk | None:
    """Return the cards that a class requests; None if the class requests no cards. The profile of a
    part of a split card is left out. The reason is that a node's capacity states how many parts of
    each profile there are, but not which cards they are.
    """
    request = {
        GPU if name in (GPUS, "gpu") else name: to_units(x)
        for name, x in eq_class.shape.request
        if x > 0 and not name.startswith(PROFILE)
    }
    if not request.get(GPU):
        return None
    return card_ask(request) or CardAsk(request[GPU] // SCALE)
