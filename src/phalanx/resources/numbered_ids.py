"""Numbered devices as the oldest rule hands them out: highest number first, shares by first fit."""

from __future__ import annotations

from dataclasses import dataclass

from phalanx.resources.quantities import SCALE, from_units

Share = tuple[int, int]
"""(device number, units of 1/10000 of it)."""


@dataclass(frozen=True, kw_only=True)
class NumberedIds:
    """Free devices: `whole` ones, taken from the end, and `shares` of others, in list order.

    No number is in both lists. `owed`: whole devices that leave as soon as they come back, the
    backlog of a decrease that found too few free.
    """

    whole: tuple[int, ...] = ()
    shares: tuple[Share, ...] = ()
    owed: int = 0

    def contains(self, units: int) -> bool:
        """Whether `acquire` would succeed: shares of two devices never make up one."""
        self._check(units)
        if units >= SCALE:
            return len(self.whole) >= units // SCALE
        return bool(self.whole) or any(left >= units for _, left in self.shares)

    def acquire(self, units: int) -> tuple[NumberedIds, NumberedIds]:
        """(what was taken, what is left). Raises ValueError when it is not there."""
        if not self.contains(units):
            raise ValueError(f"{from_units(units):g} devices are not free")
        if units >= SCALE:
            count = units // SCALE
            taken = tuple(reversed(self.whole[-count:]))
            return self._of(taken), self._left(whole=self.whole[:-count])
        for at, (number, left) in enumerate(self.shares):
            if left >= units:
                kept = ((number, left - units),) if left > units else ()
                shares = (*self.shares[:at], *kept, *self.shares[at + 1 :])
                return self._of((), ((number, units),)), self._left(shares=shares)
        number = self.whole[-1]
        split = self._left(whole=self.whole[:-1], shares=(*self.shares, (number, SCALE - units)))
        return self._of((), ((number, units),)), split

    def release(self, taken: NumberedIds) -> NumberedIds:
        """What is free once `taken` came back: shares of one device merge into it again.

        Raises ValueError when more of a device comes back than there is of it.
        """
        shares = dict(self.shares)
        whole = list(self.whole)
        for number, units in taken.shares:
            if number in whole or shares.get(number, 0) + units > SCALE:
                raise ValueError(f"device {number} was given back twice")
            shares[number] = shares.get(number, 0) + units
        back = [*taken.whole, *(number for number, units in shares.items() if units == SCALE)]
        for number in taken.whole:
            if number in whole or number in shares:
                raise ValueError(f"device {number} was given back twice")
        owed = min(self.owed, len(back))
        return NumberedIds(
            whole=(*whole, *back[owed:]),
            shares=tuple((n, units) for n, units in shares.items() if units < SCALE),
            owed=self.owed - owed,
        )

    def increase(self, numbers: tuple[int, ...]) -> NumberedIds:
        """More devices; those that are owed are paid with them first."""
        owed = min(self.owed, len(numbers))
        return NumberedIds(
            whole=(*self.whole, *numbers[owed:]), shares=self.shares, owed=self.owed - owed
        )

    def decrease(self, count: int) -> NumberedIds:
        """`count` devices fewer: free ones from the end, the others once they come back."""
        now = min(count, len(self.whole))
        return NumberedIds(
            whole=self.whole[: len(self.whole) - now],
            shares=self.shares,
            owed=self.owed + count - now,
        )

    def units(self) -> int:
        """What is free, in units."""
        return len(self.whole) * SCALE + sum(units for _, units in self.shares)

    def _check(self, units: int) -> None:
        if units <= 0 or (units > SCALE and units % SCALE):
            raise ValueError(
                f"one or more whole devices, or a share of one, not {from_units(units):g}"
            )

    def _of(self, whole: tuple[int, ...], shares: tuple[Share, ...] = ()) -> NumberedIds:
        return NumberedIds(whole=whole, shares=shares)

    def _left(
        self, whole: tuple[int, ...] | None = None, shares: tuple[Share, ...] | None = None
    ) -> NumberedIds:
        return NumberedIds(
            whole=self.whole if whole is None else whole,
            shares=self.shares if shares is None else shares,
            owed=self.owed,
        )
