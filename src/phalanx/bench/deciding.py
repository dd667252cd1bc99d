"""The benchmarks of the deciding core: placement of one request, and whole batch cycles.

Each lives beside what it measures, in a module with `run(clock)`; the clock is handed in because
the deciding core has none. It yields `(name, value, unit)`.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from typing import NamedTuple

MODULES = {
    "placement": "phalanx.policies.benchmark",
    "batch": "phalanx.batch.benchmark",
}


class Figure(NamedTuple):
    """One measured figure of a decision benchmark."""

    name: str
    value: float
    unit: str


def decision_groups(group: str) -> list[str]:
    """The groups that `group` names and that this build has, in a fixed order."""
    return [
        name
        for name, module in MODULES.items()
        if group in (name, "all") and importlib.util.find_spec(module) is not None
    ]


def measure_group(name: str) -> list[Figure]:
    """Run the benchmark of one group."""
    module = importlib.import_module(MODULES[name])
    return [Figure(*figure) for figure in module.run(clock=time.perf_counter)]
