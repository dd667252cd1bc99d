"""Sets the environment that shows a task its devices, and a gang's member its rank."""

from __future__ import annotations

import os
from collections.abc import Mapping

from phalanx.model.accelerators import VISIBLE
from phalanx.runtime.os.visible_devices import (
    TRUE,
    is_left_alone,
    named_devices,
    variables_of,
)
from phalanx.runtime.worker.blas_threads import inherited

_HIDE = "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"
"""Ray's variable. If it is set, work that holds no devices sees none; otherwise it sees all
devices.
"""


class DeviceEnvironment:
    """Sets the variables of devices for each lease. For a lease without devices, the old values are
    restored.
    """

    def __init__(self, shown: Mapping[str, str]) -> None:
        """Remember the current variables.

        `shown`: the lists of devices that were shown to the node, by resource. A runtime
        environment of this process may have other lists, but the node's numbers of devices refer to
        its own lists.
        """
        self._shown = shown
        self._before = {
            resource: {name: os.environ.get(name) for name in variables_of(resource, os.environ)}
            for resource in VISIBLE
        }
        """The variables that show devices, with the values that they had at the start."""
        self._threads = "OMP_NUM_THREADS" not in os.environ
        if not self._threads:
            inherited.limit(_count(os.environ["OMP_NUM_THREADS"]))
        self._cpus = 0.0
        """The number of CPUs to which OMP_NUM_THREADS was last set."""
        self._of_gang: dict[str, str | None] = {}
        """The values that the variables of a gang, and of shares of devices, had before the current
        work.
        """

    def show(
        self,
        devices: dict[str, list[int]],
        cpus: float,
        gang: Mapping[str, str] | None = None,
        shares: Mapping[str, str] | None = None,
    ) -> None:
        """Set the variables that show the work its `devices` and its `gang`. Set the default number
        of threads to the number of CPUs.

        `shares`: the variables that say which parts of shared devices the work may use.
        """
        self._set(self._of_gang, {})
        self._show_devices(devices)
        self._set(self._of_gang, {**(gang or {}), **(shares or {})})
        self.show_cpus(cpus)

    def _show_devices(self, devices: dict[str, list[int]]) -> None:
        for resource, own in VISIBLE.items():
            numbers = devices.get(resource)
            for name, before in self._before[resource].items():
                if is_left_alone(name):
                    continue
                if numbers:
                    os.environ[name] = named_devices(self._shown.get(resource), numbers, own)
                elif os.environ.get(_HIDE) in TRUE:
                    os.environ[name] = ""
                elif before is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = before

    def show_cpus(self, cpus: float) -> None:
        """Set the default number of threads to the number of CPUs."""
        if cpus != self._cpus and self._threads:
            self._cpus = cpus
            count = max(int(cpus), 1)
            os.environ["OMP_NUM_THREADS"] = str(count)
            inherited.limit(count)

    @property
    def shows_gang(self) -> bool:
        """Whether the variables of a gang, or of shares of devices, are set."""
        return bool(self._of_gang)

    def _set(self, old: Mapping[str, str | None], new: Mapping[str, str]) -> None:
        """Set the variables `new`. Before that, give the variables of the previous work their
        earlier values, `old`, again.
        """
        for name, before in old.items():
            if before is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = before
        self._of_gang = {name: os.environ.get(name) for name in new}
        os.environ.update(new)


def _count(text: str) -> int:
    """Return the first number in the text of OMP_NUM_THREADS: it is for the outermost level."""
    first = text.partition(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) else 1
