"""The wiring of a machine's devices: as a person declared it, or as it was detected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from phalanx.model.nearest import nearest

if TYPE_CHECKING:
    from phalanx.scheduler.devices.topology import Topology


def read_topology(declared: str) -> Topology | None:
    """Return the wiring of a machine's devices.

    `declared`: "detect" for the wiring of this machine, the name of a known machine, or the text of
    `nvidia-smi topo -m`. Returns None if no wiring is detected. Raises ValueError for any other
    text.
    """
    from phalanx.scheduler.devices.machines import known_machines, machine
    from phalanx.scheduler.devices.topology import parse_topo

    if declared == "detect":
        from phalanx.runtime.os.detection import detect_gpus

        return detect_gpus()[1]
    if "\n" not in declared.strip():
        if declared not in known_machines():
            raise ValueError(
                f"{declared!r} is no known machine; known: {', '.join(known_machines())}"
                f"{nearest(declared, known_machines()) or '.'}  "
                "The text of `nvidia-smi topo -m` is accepted as well."
            )
        return machine(declared)
    return parse_topo(declared)
