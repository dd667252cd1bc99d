"""Shared GPUs: the part of each card that a request takes, and the cards that have room for it.

The share and the memory of a card are counted together: 10,000 units are the whole card with all
its memory. A request in bytes takes the least number of units that covers the bytes on that card.
So a card that is not over-committed in units is not over-committed in bytes either. All sharers of
a card use the same mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from phalanx.model.gpu_sharing import (
    BY_MPS,
    CARDS,
    GPU,
    LIMIT,
    MEMORY,
    MPS,
    PROFILE,
    TERMS,
    TIME,
)
from phalanx.scheduler.devices.devices import DeviceChooser, LowestIndex, take
from phalanx.scheduler.devices.quantities import SCALE
from phalanx.scheduler.devices.sets import ResourceSet

_LOWEST = LowestIndex()
_MOST = 1 << 62
"""The largest amount of a card in units, so that arrays of 64-bit integers can hold it."""
Taken = tuple[tuple[int, int], ...]
"""The cards that a request takes: (device number, units), by ascending number."""


class Cards(msgspec.Struct, frozen=True, array_like=True):
    """Facts about a node's GPUs, by their numbers. Without any facts, all GPUs are alike. `memory`
    is in bytes. `profiles` has the profile of each part of a split GPU (MIG), and "" for a whole
    GPU. `modes` has the mode in which each card is shared now. A shared card without a mode is
    shared by time.
    """

    memory: tuple[int, ...] = ()
    profiles: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()

    def memory_of(self, number: int, otherwise: int) -> int:
        """Return the memory of a card in bytes; `otherwise` if the memory of this card is
        unknown.
        """
        return self.memory[number] if number < len(self.memory) else otherwise

    def mode_of(self, number: int) -> str:
        """Return the mode in which a card is shared now."""
        return self.modes[number] if number < len(self.modes) else ""

    def profile_of(self, number: int) -> str:
        """Return the profile of a part of a split GPU."""
        return self.profiles[number] if number < len(self.profiles) else ""


PLAIN = Cards()


def without_modes(cards: Cards) -> Cards:
    """Return the facts about cards that stay the same whatever work shares them."""
    return msgspec.structs.replace(cards, modes=()) if cards.modes else cards


class CardAsk(msgspec.Struct, frozen=True):
    """A request for cards: `count` cards with `memory` bytes or `share` units of each."""

    count: int
    share: int = SCALE
    memory: int = 0
    limit: int = 0
    """The bytes on each card above which the job's processes are ended. 0 stands for the bytes that
    the job gets on the card.
    """
    mode: str = ""
    """The mode in which the card is shared; "" for whole cards."""
    profile: str = ""

    def units_on(self, card_memory: int) -> int | None:
        """Return the units that this request takes on a card with this memory in bytes; None if the
        card is too small.
        """
        if not self.memory:
            return self.share
        if card_memory < max(self.memory, self.limit):
            return None
        return -(-self.memory * SCALE // card_memory)


def card_ask(request: Mapping[str, int]) -> CardAsk | None:
    """Return the part of a request, in units, that concerns cards; None if the request names only
    whole devices and no terms.
    """
    units = request.get(GPU)
    if not units:
        return None
    profile = next((n.removeprefix(PROFILE) for n in request if n.startswith(PROFILE)), "")
    mode = BY_MPS if request.get(MPS) else TIME
    memory = request.get(MEMORY, 0)
    if memory:
        return CardAsk(
            count=max(1, request.get(CARDS, 0) // SCALE),
            memory=memory // SCALE,
            limit=request.get(LIMIT, 0) // SCALE,
            mode=mode,
            profile=profile,
        )
    if units < SCALE:
        return CardAsk(1, units, mode=mode, profile=profile)
    return CardAsk(units // SCALE, profile=profile) if profile else None


def pick_cards(
    left: Mapping[int, int],
    ask: CardAsk,
    cards: Cards = PLAIN,
    memory: int = 0,
    chooser: DeviceChooser = _LOWEST,
) -> Taken | None:
    """Return (number, units) of the cards for a request; None if too few have room for it.

    `left`: the units left on each card; `memory`: bytes of cards that `cards` does not describe. A
    request for parts of cards goes to cards that are shared in its mode; among those with enough
    room, the ones with the least room come first. If they are too few, free cards are used, too:
    the smallest ones that suffice, as `chooser` picks them.
    """
    if not ask.profile and chooser is _LOWEST and (not ask.mode or _is_alike(ask, cards)):
        return _first_cards(left, ask)
    right = [n for n in sorted(left) if not ask.profile or cards.profile_of(n) == ask.profile]
    if not ask.mode:
        return take({n: left[n] for n in right}, ask.count * SCALE, chooser)
    shared: list[tuple[int, int, int]] = []
    fresh: dict[int, tuple[int, int]] = {}
    for number in right:
        size = cards.memory_of(number, memory)
        units = ask.units_on(size)
        if units is None or units > left[number]:
            continue
        if left[number] == SCALE:
            fresh[number] = (size, units)
        elif (cards.mode_of(number) or TIME) == ask.mode:
            shared.append((left[number] * size // SCALE if size else left[number], number, units))
    chosen = [(number, units) for _, number, units in sorted(shared)[: ask.count]]
    wanted = ask.count - len(chosen)
    if wanted > len(fresh):
        return None
    if wanted:
        smallest = sorted(size for size, _ in fresh.values())[wanted - 1]
        opened = chooser.pick([n for n, (size, _) in fresh.items() if size <= smallest], wanted)
        chosen += [(number, fresh[number][1]) for number in opened]
    return tuple(sorted(chosen))


def _is_alike(ask: CardAsk, cards: Cards) -> bool:
    """Whether all cards are alike for a request, except for what is left on each of them."""
    return ask.mode == TIME and not (ask.memory or cards.memory or cards.modes)


def _first_cards(left: Mapping[int, int], ask: CardAsk) -> Taken | None:
    """Return what `pick_cards` returns if the cards are alike: those with the least room that is
    enough; among equals, those with the lowest numbers.
    """
    share = ask.share if ask.mode else SCALE
    found = sorted((units, n) for n, units in left.items() if share <= units)
    if len(found) < ask.count:
        return None
    return tuple(sorted((n, share) for _, n in found[: ask.count]))


def how_often(
    left: Mapping[int, int], ask: CardAsk, cards: Cards = PLAIN, memory: int = 0, most: int = _MOST
) -> int:
    """Return how many equal requests have room one after another. If there is room for more than
    `most` requests, the result may be any number from `most` on. The other arguments are as for
    `pick_cards`.
    """
    if not ask.profile and ask.count == 1 and _is_alike(ask, cards):
        return sum([units // ask.share for units in left.values()])
    right = [n for n in left if not ask.profile or cards.profile_of(n) == ask.profile]
    if not ask.mode:
        return sum(left[n] == SCALE for n in right) // ask.count
    rooms: list[int] = []
    for number in right:
        units = ask.units_on(cards.memory_of(number, memory))
        if units and (left[number] == SCALE or (cards.mode_of(number) or TIME) == ask.mode):
            rooms.append(left[number] // units)
    if ask.count == 1:
        return sum(rooms)
    now = dict(left)
    for times in range(most):
        taken = pick_cards(now, ask, cards, memory)
        if taken is None:
            return times
        for number, units in taken:
            now[number] -= units
        cards = shared_by(cards, ask, taken)
    return most


def most_free(left: Sequence[int], ask: CardAsk, cards: Cards = PLAIN, memory: int = 0) -> int:
    """Return the most that a request for `ask.count` cards could get now, in units of 1/10000.

    For a request in bytes, the result is the bytes on each card. For a request for whole cards, it
    is the number of free cards. For any other request, it is the share of each card. `left`,
    `cards` and `memory`: as for `pick_cards`. That function succeeds if the result here is at least
    the requested amount.
    """
    found: list[int] = []
    for number, units in enumerate(left):
        if ask.profile and cards.profile_of(number) != ask.profile:
            continue
        if not ask.mode:
            found.append(SCALE if units == SCALE else 0)
        elif units == SCALE or (cards.mode_of(number) or TIME) == ask.mode:
            size = cards.memory_of(number, memory)
            is_large = size >= ask.limit
            found.append(
                (units * size // SCALE * SCALE if is_large else 0) if ask.memory else units
            )
    if not ask.mode:
        return sum(found)
    found.sort(reverse=True)
    return min(found[ask.count - 1], _MOST) if len(found) >= ask.count else 0


def without_terms(request: ResourceSet) -> ResourceSet:
    """Return a request without its terms. The remaining amounts can be added to those of other
    requests.

    GPUs that are requested by memory count as the smallest possible share, because the real share
    depends on the card.
    """
    if TERMS.isdisjoint(request):
        return request
    amounts = {name: units for name, units in request.items() if name not in TERMS}
    return ResourceSet(amounts | {GPU: 1} if MEMORY in request else amounts)


def shared_by(cards: Cards, ask: CardAsk, taken: Taken) -> Cards:
    """Return the facts about the cards after the request `ask` has got those in `taken`."""
    if ask.mode in ("", TIME) and not cards.modes:
        return cards
    numbers = [number for number, _ in taken]
    modes = list(cards.modes)
    missing = max(numbers, default=-1) + 1 - len(modes)
    modes += [""] * max(missing, 0)
    for number in numbers:
        modes[number] = ask.mode
    return msgspec.structs.replace(cards, modes=tuple(modes))
