"""Sets of resources, with the exact amount of each resource."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping

from phalanx.scheduler.devices.quantities import from_units, to_units


class ResourceSet(Mapping[str, int]):
    """An immutable mapping from a resource's name to units of 1/10000.

    Entries of zero are dropped, so a set without GPU equals a set with zero GPUs. Iteration is in
    the order of names. Only the difference of two sets can have negative amounts.
    """

    __slots__ = ("_hash", "_units")

    def __init__(self, units: Mapping[str, int] | None = None) -> None:
        """`units`: amounts in units of 1/10000. (`from_mapping` takes amounts as users write
        them.)
        """
        kept = {} if units is None else {name: units[name] for name in sorted(units) if units[name]}
        self._units: dict[str, int] = kept
        self._hash: int | None = None

    @classmethod
    def from_mapping(cls, amounts: Mapping[str, float]) -> ResourceSet:
        """Return `{"CPU": 1, "GPU": 0.5}` as a set.

        Raises ValueError, with the resource's name, for NaN, infinity and negative amounts.
        """
        units = {}
        for name, amount in amounts.items():
            try:
                units[name] = to_units(amount)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        return cls(units)

    def to_mapping(self) -> dict[str, float]:
        """Return amounts as users write them, in order of names."""
        return {name: from_units(units) for name, units in self._units.items()}

    def is_subset(self, other: Mapping[str, int]) -> bool:
        """Whether every amount here is at most the amount in `other`. A missing name counts as
        0.
        """
        if any(units > other.get(name, 0) for name, units in self._units.items()):
            return False
        return not any(units < 0 and name not in self._units for name, units in other.items())

    def __add__(self, other: Mapping[str, int]) -> ResourceSet:
        summed = dict(self._units)
        for name, units in other.items():
            summed[name] = summed.get(name, 0) + units
        return ResourceSet(summed)

    def __sub__(self, other: Mapping[str, int]) -> ResourceSet:
        """Return the difference, in which amounts may be negative. `subtract_strict` refuses
        negative amounts.
        """
        left = dict(self._units)
        for name, units in other.items():
            left[name] = left.get(name, 0) - units
        return ResourceSet(left)

    def times(self, count: int) -> ResourceSet:
        """Return `count` times the set."""
        return ResourceSet({name: units * count for name, units in self._units.items()})

    def __le__(self, other: Mapping[str, int]) -> bool:
        return self.is_subset(other)

    def __ge__(self, other: ResourceSet) -> bool:
        return other.is_subset(self)

    def __getitem__(self, name: str) -> int:
        return self._units[name]

    def items(self) -> ItemsView[str, int]:
        return self._units.items()  # several times as fast as the inherited method

    def __contains__(self, name: object) -> bool:
        return name in self._units

    def __iter__(self) -> Iterator[str]:
        return iter(self._units)

    def __len__(self) -> int:
        return len(self._units)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResourceSet) and self._units == other._units

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self._units.items()))
        return self._hash

    def __reduce__(self) -> tuple[type[ResourceSet], tuple[dict[str, int]]]:
        return ResourceSet, (dict(self._units),)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {from_units(units):g}" for name, units in self._units.items())
        return f"ResourceSet({{{shown}}})"


EMPTY = ResourceSet()
"""The empty set."""
