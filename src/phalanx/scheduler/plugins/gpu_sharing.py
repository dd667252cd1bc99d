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
"""The largest number of cards that a node counts for."""
_MIB = 2**20
_THERE = (j.BOUND, j.BINDING, j.ALLOCATED, j.PIPELINED, j.RUNNING)
"""The states of tasks that hold cards. Leaving tasks are not among them: the cycle's sums show when
their cards are free.
"""


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
        """The cards of tasks that came later."""
        counts = cluster.capacity[:, self._gpu] // 1000
        self._counts = numbered_devices(session, self.name, counts, MAX_CARDS)
        rule = Filter(
            reason="gpu-memory",
            passes=self._passes,
            changes=self._changes,
            curable=True,
            detail=self._detail,
        )
        session.add("filter", self.name, rule)
        session.add("changed", self.name, self._changed)

    def _changes(self, eq_class: EquivalenceClass) -> int:
        return NEVER if self._asks[eq_class.index] is None else TOUCHED

    def _nodes(self) -> Counts:
        """Return the number of each node's state."""
        if self._at is None:
            self._at = self._first_states()
        return self._at

    def _first_states(self) -> Counts:
        """Return the states with the tasks that are on the nodes now, of which tasks with whole
        cards come first, and with the work outside the snapshot.
        """
        cluster, states = self._cluster, self._states
        tasks, nodes, of_class = self._holders()
        starts = np.searchsorted(nodes, np.arange(len(cluster.nodes) + 1))
        self._place_of = np.full(len(cluster.tasks), -1, dtype=np.int64)
        """The place of each of these tasks on its node; -1 for all other tasks."""
        self._place_of[tasks] = np.arange(len(tasks)) - starts[nodes]
        kinds, kind_of = cluster.described(self.name, _kinds)
        first, self._group_of = equal_nodes(kind_of, self._counts, of_class, starts)
        self._takens: list[list[Taken]] = []
        """The cards of these tasks by place, for each group of equal nodes."""
        found: list[int] = []
        for node in first.tolist():
            state = states.free(int(self._counts[node]), *kinds[kind_of[node]])
            takens: list[Taken] = []
            for index in of_class[starts[node] : starts[node + 1]].tolist():
                state, taken = states.take(state, self._asks[index] or CardAsk(1))
                takens.append(taken)
            found.append(state)
            self._takens.append(takens)
        at = np.array(found, dtype=np.int64)[self._group_of]
        for node in cluster.nodes_of_others():
            at[node] = self._with_others(int(at[node]), cluster.taken_by_others(node, self._gpu))
        return at

    def _holders(self) -> tuple[Indexes, Counts, Counts]:
        """Return the tasks that hold cards, their nodes and the indexes of their classes, sorted by
        node. Those of a node with whole cards come first, and equal tasks follow each other.
        """
        cluster = self._cluster
        holds = np.array([ask is not None for ask in self._asks.values()])
        shares = np.array([bool(ask and ask.mode) for ask in self._asks.values()])
        of_class = np.array([k.index for k in cluster.eq_class], dtype=np.int64)
        nodes = np.array(cluster.node_of, dtype=np.int64)
        there = np.flatnonzero((nodes >= 0) & holds[of_class] & np.isin(cluster.status, _THERE))
        at, classes = nodes[there], of_class[there]
        order = np.lexsort((classes, shares[classes], at))
        return there[order], at[order], classes[order]

    def _with_others(self, state: int, amount: int) -> int:
        """Return the state after work outside the snapshot took this many thousandths of
        GPUs.
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
            self._nodes()  # the columns do not show a task at a place that it moves to
        at, states, held = self._nodes(), self._states, self._held
        after = states.after(ask)
        places = self._place_of.take(change.tasks).tolist()
        for t, node, place in zip(change.tasks, change.nodes, places, strict=True):
            state = int(at[node])
            if change.sign > 0:
                if place < 0 and t not in held:
                    at[node], held[t] = after.get(state) or states.take(state, ask)
            elif place >= 0:
                self._place_of[t] = -1
                at[node] = states.give_back(state, self._takens[self._group_of[node]][place])
            elif (taken := held.pop(t, None)) is not None:
                at[node] = states.give_back(state, taken)


def _kinds(nodes: Sequence[NodeSpec]) -> tuple[list[tuple[int, Cards]], Counts]:
    """Return the kinds of nodes, each as the memory of a card in bytes and facts about the cards,
    and the number of each node's kind.
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
    """Return the cards that a class requests; None if it requests none. The profile of a part of a
    split card is left out, because a node's capacity has the number of parts with each profile, but
    not which cards they are.
    """
    request = {
        GPU if name in (GPUS, "gpu") else name: to_units(x)
        for name, x in eq_class.shape.request
        if x > 0 and not name.startswith(PROFILE)
    }
    if not request.get(GPU):
        return None
    return card_ask(request) or CardAsk(request[GPU] // SCALE)
