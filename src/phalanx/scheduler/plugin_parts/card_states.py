"""The states that the cards of a node can be in, and what requests do to them.

Most nodes of a cluster are in one of a few states: their cards have the same memory, and equal
tasks hold them. So each state is kept once, with a number. Whether a request has room, and the
state after it got its cards, are computed once for each state and not once for each node.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from phalanx.scheduler.cycle.amounts import Counts
from phalanx.scheduler.cycle.rows import Indexes
from phalanx.scheduler.devices.cards import (
    CardAsk,
    Cards,
    Taken,
    how_often,
    most_free,
    pick_cards,
    shared_by,
)
from phalanx.scheduler.devices.quantities import SCALE

_UNKNOWN = -1


class CardState(msgspec.Struct, frozen=True, array_like=True):
    """The cards of one node: the units that each card has left, facts about the cards, and the
    memory in bytes of each card whose memory is not among these facts.
    """

    left: tuple[int, ...]
    memory: int
    cards: Cards


class _Answers:
    """The answers to one request, by the number of the state. `rooms`: how many such requests have
    room one after another, counted up to `counted`. `after`: the state that follows when the
    request gets its cards, and these cards.
    """

    __slots__ = ("after", "counted", "rooms")

    def __init__(self) -> None:
        self.after: dict[int, tuple[int, Taken]] = {}
        self.counted = 1
        self.rooms: Counts = np.zeros(0, dtype=np.int64)


class CardStates:
    """All states that were met so far."""

    def __init__(self) -> None:
        self._states: list[CardState] = []
        self._number: dict[CardState, int] = {}
        self._answers: dict[CardAsk, _Answers] = {}

    def free(self, count: int, memory: int, cards: Cards) -> int:
        """Return the number of the state in which all of a node's cards are free."""
        return self._numbered(CardState((SCALE,) * count, memory, cards))

    def after(self, ask: CardAsk) -> Mapping[int, tuple[int, Taken]]:
        """Return the results of `take` for a request that are known already, by the state from
        which `take` began.
        """
        return self._answers_to(ask).after

    def take(self, state: int, ask: CardAsk) -> tuple[int, Taken]:
        """Give a request its cards. Returns two values: the state that follows, and the cards.
        Without room, the state stays the same, and there are no cards.
        """
        after = self._answers_to(ask).after
        found = after.get(state)
        if found is None:
            left, memory, cards = self._open(state)
            taken = pick_cards(left, ask, cards, memory) or ()
            for number, units in taken:
                left[number] -= units
            cards = shared_by(cards, ask, taken)
            next_state = self._numbered(CardState(tuple(left.values()), memory, cards))
            found = after[state] = (next_state, taken)
        return found

    def take_card(self, state: int, ask: CardAsk, card: int) -> tuple[int, Taken]:
        """Give a request a part of the card `card`, or of another card if this one has no room.
        Returns the same two values as `take`.
        """
        _, memory, cards = self._open(state)
        units = ask.units_on(cards.memory_of(card, memory))
        return self.take_these(state, ask, ((card, units or SCALE + 1),))

    def take_these(self, state: int, ask: CardAsk, taken: Taken) -> tuple[int, Taken]:
        """Give a request the cards `taken`, or other cards if these have no room. Returns the same
        two values as `take`.
        """
        left, memory, cards = self._open(state)
        if any(left.get(number, 0) < units for number, units in taken):
            return self.take(state, ask)
        for number, units in taken:
            left[number] -= units
        cards = shared_by(cards, ask, taken)
        return self._numbered(CardState(tuple(left.values()), memory, cards)), taken

    def give_back(self, state: int, taken: Taken) -> int:
        """Return the state that follows when a request gives the cards `taken` back."""
        left, memory, cards = self._open(state)
        modes = list(cards.modes)
        for number, units in taken:
            left[number] += units
            if left[number] == SCALE and number < len(modes):
                modes[number] = ""
        cards = msgspec.structs.replace(cards, modes=tuple(modes))
        return self._numbered(CardState(tuple(left.values()), memory, cards))

    def rooms(self, states: Counts, ask: CardAsk, most: int) -> Counts:
        """Return for each of these states how many equal requests have room one after another. If
        there is room for more than `most`, the result may be any number from `most` on.
        """
        known = self._answers_to(ask)
        if known.counted < most:
            known.rooms[known.rooms >= known.counted] = _UNKNOWN
            known.counted = most
        new = len(self._states) - len(known.rooms)
        if new:
            known.rooms = np.append(known.rooms, np.full(new, _UNKNOWN, dtype=np.int64))
        found: Counts = known.rooms.take(states)
        if (found < 0).any():
            for state in np.unique(states[found < 0]).tolist():
                left, memory, cards = self._open(state)
                known.rooms[state] = how_often(left, ask, cards, memory, known.counted)
            found = known.rooms.take(states)
        return found

    def most(self, state: int, ask: CardAsk) -> int:
        """Return the most that a request could get (see `most_free`)."""
        one = self._states[state]
        return most_free(one.left, ask, one.cards, one.memory)

    def _open(self, state: int) -> tuple[dict[int, int], int, Cards]:
        one = self._states[state]
        return dict(enumerate(one.left)), one.memory, one.cards

    def _answers_to(self, ask: CardAsk) -> _Answers:
        found = self._answers.get(ask)
        if found is None:
            found = self._answers[ask] = _Answers()
        return found

    def _numbered(self, state: CardState) -> int:
        found = self._number.get(state)
        if found is None:
            found = self._number[state] = len(self._states)
            self._states.append(state)
        return found


def equal_nodes(
    kinds: Counts, counts: Counts, of_class: Counts, starts: Indexes
) -> tuple[Indexes, Indexes]:
    """Return groups of equal nodes: the first node of each group, and the group of each node.

    Nodes are equal if they have the same kind, the same number of cards, and equal tasks in the
    same order. `of_class`: the class of each task, by node; those of node n begin at `starts[n]`.
    """
    sizes = np.diff(starts)
    marks = np.array([hash((index,)) for index in range(int(of_class.max(initial=0)) + 1)])
    # A task counts by its rank on its node, so that another order has another sum.
    by_rank = np.array([hash((rank, 2)) for rank in range(int(sizes.max(initial=0)))], np.int64)
    ranks = np.arange(len(of_class)) - starts[:-1].repeat(sizes)
    sums = np.concatenate(([0], (marks[of_class] * by_rank[ranks]).cumsum()))
    keys = sums[starts[1:]] - sums[starts[:-1]] + counts * hash((0, 1)) + kinds * hash((1, 0))
    _, first, group_of = np.unique(keys, return_index=True, return_inverse=True)
    alike = first[group_of]
    is_equal = (kinds == kinds[alike]) & (counts == counts[alike]) & (sizes == sizes[alike])
    if is_equal.all():
        moved = (starts[alike] - starts[:-1]).repeat(sizes)
        if (of_class == of_class[np.arange(len(of_class)) + moved]).all():
            return first, group_of
    each = np.arange(len(counts))  # two keys are equal by chance
    return each, each
