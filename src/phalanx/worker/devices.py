"""The environment that shows a task its devices."""

from __future__ import annotations

import os

VISIBLE = {
    "GPU": "CUDA_VISIBLE_DEVICES",
    "TPU": "TPU_VISIBLE_CHIPS",
    "NPU": "ASCEND_RT_VISIBLE_DEVICES",
    "HPU": "HABANA_VISIBLE_MODULES",
    "neuron_cores": "NEURON_RT_VISIBLE_CORES",
}


class DeviceEnvironment:
    """Sets the variables for each lease, and restores what was there for one without devices."""

    def __init__(self) -> None:
        self._before = {name: os.environ.get(name) for name in VISIBLE.values()}
        self._threads = "OMP_NUM_THREADS" not in os.environ

    def show(self, devices: dict[str, list[int]], cpus: float) -> None:
        """Make `devices` visible, and no more threads than CPUs the default."""
        for resource, name in VISIBLE.items():
            numbers = devices.get(resource)
            before = self._before[name]
            if numbers:
                # Numbers count within what the node itself was allowed to see.
                seen = before.split(",") if before else None
                os.environ[name] = ",".join(
                    seen[n] if seen and n < len(seen) else str(n) for n in numbers
                )
            elif before is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = before
        if self._threads:
            os.environ["OMP_NUM_THREADS"] = str(max(int(cpus), 1))
