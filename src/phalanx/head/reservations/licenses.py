"""The number of licenses of each kind that the cluster has."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from phalanx.errors import JobCommandError
from phalanx.head.state_store import StateStore
from phalanx.manifests.licenses import license_fault
from phalanx.manifests.names import shown
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.nearest import nearest
from phalanx.scheduler.cycle.specs import LicenseSpec

MAX_LICENSES = 1_000
"""The largest number of kinds of licenses."""


class LicenseRow(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of license, as stored."""

    name: str
    total: int


class LicenseCounts:
    """The counts of licenses, by name."""

    def __init__(self, state_store: StateStore, changed: Callable[[], None]) -> None:
        """`changed` is called when more jobs may start than before."""
        self._state_store = state_store
        self._changed = changed
        self._totals: dict[str, int] = {}

    def put(self, name: str, total: int) -> None:
        """Set the number of licenses of a kind; 0 removes the kind. Raises JobCommandError for an
        invalid name or number.
        """
        fault = license_fault(name, total)
        if fault is None and name not in self._totals and len(self._totals) >= MAX_LICENSES:
            fault = f"there are {MAX_LICENSES} kinds of licenses already, the maximum"
        if fault is not None:
            raise JobCommandError(fault)
        if total:
            self._totals[name] = total
        else:
            self._totals.pop(name, None)
        row = LicenseRow(name=name, total=total) if total else None
        self._state_store.keep("licenses", name.encode(), row)
        self._changed()

    def load(self, rows: Iterable[LicenseRow]) -> None:
        """Restore stored counts."""
        for row in rows:
            self._totals[row.name] = row.total

    def specs(self) -> tuple[LicenseSpec, ...]:
        """Return the counts as cycles read them."""
        return tuple(LicenseSpec(name=n, total=t) for n, t in sorted(self._totals.items()))

    def check(self, spec: JobSpec) -> None:
        """Raise JobCommandError if the job requests more licenses than the cluster has."""
        for name, count in spec.licenses:
            total = self._totals.get(name)
            if total is None:
                there = ", ".join(sorted(self._totals)[:5]) or "none"
                raise JobCommandError(
                    f"job {spec.uid}: licenses={shown(name)}: the cluster has no such licenses"
                    f"{nearest(name, self._totals)}; there are {there} (phalanx set-license)"
                )
            if count > total:
                raise JobCommandError(
                    f"job {spec.uid}: licenses={name}:{count}: the cluster has {total} of {name}; "
                    "ask for at most that (phalanx set-license)"
                )
