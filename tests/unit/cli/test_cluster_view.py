"""The text of `phalanx status`, and its JSON."""

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


def test_bundles_of_gangs_are_no_placement_groups_and_held_jobs_wait() -> None:
    of_program = {"state": "CREATED", "stats": {"scheduling_attempt": 1}}
    of_gang = {"state": "REMOVED", "stats": {"scheduling_state": "REMOVED"}}
    status = StatusInfo(
        address="", store="memory", nodes=[], actors={}, groups=[of_program, of_gang, of_gang],
        jobs=[], gangs={"running": 2, "waiting": 1}, troubles=[], defects={},
        job_states={"Pending": 5, "Running": 2},
    )  # fmt: skip
    lines = status_text(status, "1").splitlines()
    assert "placement groups: 1 CREATED" in lines
    assert "jobs: 5 Pending, 2 Running" in lines
    assert "gangs of programs and jobs: 2 running, 1 waiting" in lines
    assert as_data(status, "1")["job_states"] == {"Pending": 5, "Running": 2}
