"""The text and the data of `phalanx status`."""

from __future__ import annotations

from phalanx.cli.cluster_view import as_data, status_text
from phalanx.model.rows.cluster import StatusInfo


def test_machines_that_boot_are_shown_by_pool() -> None:
    status = StatusInfo(
        address="10.0.0.1:6380",
        store="memory",
        nodes=[],
        actors={},
        groups=[],
        jobs=[],
        gangs={},
        troubles=[],
        defects={},
        booting={"gpu": ["gpu-1", "gpu-2"], "cpu": ["cpu-1"]},
    )
    text = status_text(status, "1")
    assert "0 dead\n  pool gpu: gpu-1, gpu-2 boot\n  pool cpu: cpu-1 boots\n" in text
    assert as_data(status, "1")["booting"] == {"gpu": ["gpu-1", "gpu-2"], "cpu": ["cpu-1"]}
