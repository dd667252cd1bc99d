"""Ports as sorted closed ranges, and the choice of ports that are free on every chosen node."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Protocol

LAST_PORT = 65_535

Range = tuple[int, int]


class RandomSource(Protocol):
    """A source of random numbers. The caller provides and seeds it; `random.Random` is one."""

    def randrange(self, stop: int, /) -> int:
        """Return a whole number from 0 to `stop` - 1, each with equal probability."""


@dataclass(frozen=True)
class Ports:
    """A set of ports, which `of` builds. Its `ranges` are sorted, disjoint and never adjacent."""

    ranges: tuple[Range, ...] = ()

    def __post_init__(self) -> None:
        assert all(low <= high for low, high in self.ranges)
        assert all(before[1] + 1 < after[0] for before, after in pairwise(self.ranges))

    @classmethod
    def of(cls, ranges: Iterable[Sequence[int]]) -> Ports:
        """Build a set from closed ranges in any order. Overlapping and adjacent ranges are joined.
        Raises ValueError if a range ends before it begins, and for numbers that are not ports.
        """
        joined: list[list[int]] = []
        for low, high in sorted(_checked(given) for given in ranges):
            if joined and low <= joined[-1][1] + 1:
                joined[-1][1] = max(joined[-1][1], high)
            else:
                joined.append([low, high])
        return cls(tuple((low, high) for low, high in joined))

    def __len__(self) -> int:
        return sum(high - low + 1 for low, high in self.ranges)

    def __iter__(self) -> Iterator[int]:
        """Yield every port, ascending."""
        for low, high in self.ranges:
            yield from range(low, high + 1)

    def descending(self) -> Iterator[int]:
        """Yield every port, descending."""
        for low, high in reversed(self.ranges):
            yield from range(high, low - 1, -1)

    def __contains__(self, port: int) -> bool:
        return any(low <= port <= high for low, high in self.ranges)

    def __le__(self, other: Ports) -> bool:
        """Whether every port of this set is also in `other`."""
        return not self - other

    def __or__(self, other: Ports) -> Ports:
        return Ports.of((*self.ranges, *other.ranges))

    def __and__(self, other: Ports) -> Ports:
        if self is other:  # all ports, as on nodes whose configuration names none
            return self
        return Ports.of(
            (max(a[0], b[0]), min(a[1], b[1]))
            for a in self.ranges
            for b in other.ranges
            if max(a[0], b[0]) <= min(a[1], b[1])
        )

    def __sub__(self, other: Ports) -> Ports:
        left: list[Range] = []
        cuts = iter((*other.ranges, (LAST_PORT + 2, LAST_PORT + 2)))
        low, high = next(cuts)
        for first, last in self.ranges:
            while first <= last:
                if high < first:
                    low, high = next(cuts)
                elif low > last:
                    left.append((first, last))
                    break
                else:
                    if first < low:
                        left.append((first, low - 1))
                    first = high + 1
        return Ports(tuple(left))

    def from_port(self, first: int) -> Ports:
        """Return the ports of this set from `first` upwards."""
        if not self.ranges or first <= self.ranges[0][0]:
            return self
        return Ports(tuple((max(low, first), high) for low, high in self.ranges if high >= first))


def pick_ports(
    offered: Ports, count: int, first: int, rng: RandomSource, used: Container[int] = ()
) -> list[int] | None:
    """Return `count` ports in ascending order that are `offered`, not `used`, and not below
    `first`; None if there are too few.

    Ports are taken upwards from a random port. So the result is a few runs of ports, and two
    processes that choose independently rarely pick the same ports. If there are too few ports above
    the random port, its distance from the lowest usable port is halved until there are enough. The
    time grows with `count` and with the number of used ports that are skipped, and not with the
    number of all ports.
    """
    if not count:
        return []
    usable = offered.from_port(first)
    highest = next((port for port in usable.descending() if port not in used), None)
    if highest is None:
        return None
    lowest = usable.ranges[0][0]
    offset = rng.randrange(highest - lowest + 1)
    while True:
        above = usable.from_port(lowest + offset)
        picked = list(islice((port for port in above if port not in used), count))
        if len(picked) == count:
            return picked
        if not offset:
            return None
        offset //= 2


def settle_ports(
    everywhere: Iterable[Ports],
    chosen: Iterable[Ports],
    count: int,
    first: int,
    rng: RandomSource,
    *,
    earlier: Sequence[int] = (),
    used: Container[int] = (),
) -> list[int] | None:
    """Return `count` ports that are free on all nodes of the tasks; None if the nodes have too few
    ports in common.

    `chosen`: the ports that may be used, for each of these nodes. `everywhere`: the ports that each
    node of the cluster offers. `earlier`: the ports that the gang had before. These are preferred.
    Next are ports that all nodes of the cluster offer, because the tasks can move to any node with
    them. Other ports that the chosen nodes have in common come last. Source: SelectionManager of
    OpenPAI (reused ports, then two rounds). `first` and `used`: as for `pick_ports`.
    """
    common = common_ports(chosen)
    if len(earlier) == count and all(port in common and port not in used for port in earlier):
        return list(earlier)
    picked = pick_ports(common & common_ports(everywhere), count, first, rng, used)
    return picked if picked is not None else pick_ports(common, count, first, rng, used)


def common_ports(nodes: Iterable[Ports]) -> Ports:
    """Return the ports that are free on every one of `nodes`; no ports if there are no nodes."""
    common: Ports | None = None
    for ports in nodes:
        common = ports if common is None else common & ports
    return common if common is not None else Ports()


def parse_ports(text: str) -> Ports:
    """Read a text such as `"8080,20000-20999"` as ports. Raises ValueError for any other text."""
    try:
        ranges = [_range_of(word) for word in text.split(",") if word.strip()]
    except ValueError:
        raise ValueError(
            f"ports must be numbers and ranges such as 8080,20000-20999, not {text!r}"
        ) from None
    return Ports.of(ranges)


def _range_of(word: str) -> Range:
    low, dash, high = word.partition("-")
    return (int(low), int(high if dash else low))


def _checked(given: Sequence[int]) -> Range:
    low, high = given
    if low > high:
        raise ValueError(f"a port range runs upwards: {low}-{high}; did you mean {high}-{low}?")
    if low < 0 or high > LAST_PORT:
        raise ValueError(f"ports must be 0 to {LAST_PORT}, not {low}-{high}")
    return (low, high)
