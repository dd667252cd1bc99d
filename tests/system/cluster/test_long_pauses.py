"""A node that is stopped for longer than the head waits begins no more work when it continues."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.polling import eventually

import phalanx

LIMITS = {"period_s": 0.5, "misses": 4, "joining_s": 0.0}
"""Settings with which a node that is silent for two seconds is declared dead."""
COUNT = 300

pytestmark = pytest.mark.slow


def test_tasks_of_an_array_that_another_node_has_taken_over_do_not_begin(
    new_cluster, tmp_path: Path
) -> None:
    """The node is stopped while it still has tasks of the array that have not begun."""
    cluster = new_cluster(1, 1, limits=LIMITS)
    node = next(node for node in cluster.list_all_nodes() if node is not cluster.head_node)
    there = tmp_path / node.node_id
    script = f"echo $PHALANX_ARRAY_INDEX >> {tmp_path}/$PHALANX_NODE; sleep 0.02"
    sweep = phalanx.submit(
        phalanx.Job(["sh", "-c", script], working_dir=str(tmp_path), array=f"0-{COUNT - 1}")
    )
    eventually(lambda: there.exists() and len(there.read_text().split()) > 20)
    os.kill(node.pid, signal.SIGSTOP)
    try:
        sweep.wait(120)
        begun = there.read_text().split()
    finally:
        os.kill(node.pid, signal.SIGCONT)
    assert sweep.status().succeeded == COUNT
    assert 20 < len(begun) < COUNT
    eventually(lambda: sum(row["Alive"] for row in phalanx.nodes()) == 2, "it is back, as another")
    assert there.read_text().split() == begun
