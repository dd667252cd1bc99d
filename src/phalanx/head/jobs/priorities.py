"""Priority classes, to which jobs refer by name."""

from __future__ import annotations

from collections.abc import Iterable

from phalanx.head.state_store import StateStore
from phalanx.model.jobs.spec import JobSpec, PriorityClass

BUILT_IN = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
"""Priority classes that always exist, as in Kubernetes."""


class Priorities:
    """The priority classes, by name."""

    def __init__(self, state_store: StateStore) -> None:
        self._state_store = state_store
        self._classes = {n: PriorityClass(name=n, value=v) for n, v in BUILT_IN.items()}

    def put(self, made: PriorityClass) -> None:
        """Add a class, or change the value that later jobs of the class get."""
        self._classes[made.name] = made
        self._state_store.keep("priorities", made.name.encode(), made)

    def load(self, classes: Iterable[PriorityClass]) -> None:
        """Restore stored classes."""
        for one in classes:
            self._classes[one.name] = one

    def of(self, spec: JobSpec) -> int:
        """Return a job's priority. Raises ValueError for an unknown class."""
        name = spec.priority_class
        if name:
            if name not in self._classes:
                known = ", ".join(sorted(self._classes))
                raise ValueError(f"there is no priority class {name!r}; known: {known}")
            return self._classes[name].value
        return spec.priority or self._default

    def of_all(self, specs: Iterable[JobSpec]) -> list[int]:
        """Return the priorities of many jobs."""
        default = self._default
        return [
            self.of(spec) if spec.priority_class else spec.priority or default for spec in specs
        ]

    @property
    def _default(self) -> int:
        return next((one.value for one in self._classes.values() if one.is_default), 0)
