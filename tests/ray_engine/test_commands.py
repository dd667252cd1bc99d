"""The command line on a Ray cluster, and Phalanx's tables in Ray's own store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from phalanx.adapters.ray.scheduler.kv_shard import KvShard
from phalanx.adapters.ray.scheduler.ray_calls import InternalKv
from phalanx.storage.storage import Storage

from .cluster import PATIENCE_S, Phalanx, ray_node


def phalanx(phx: Phalanx, *arguments: str) -> str:
    """The output of a command that must succeed."""
    ended = subprocess.run(
        [sys.executable, "-c", "from phalanx.cli import main; main()", *arguments],
        env=os.environ | {"PHALANX_ADDRESS": f"ray:{phx.cluster.address}", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_commands_reach_the_cluster_by_its_address(phx: Phalanx, tmp_path: Path) -> None:
    assert "queue team is made" in phalanx(phx, "queue", "create", "team")
    manifest = tmp_path / "job.yaml"
    manifest.write_text(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: said}\n"
        "spec:\n  queue: team\n  minAvailable: 1\n  tasks:\n  - replicas: 1\n    name: one\n"
        "    template: {spec: {containers: [{command: [echo, hello],"
        " resources: {requests: {cpu: 250m}}}]}}\n"
    )
    phalanx(phx, "submit", str(manifest), "--wait")
    (row,) = json.loads(phalanx(phx, "jobs", "--json"))
    assert (row["name"], row["queue"], row["state"]) == ("said", "team", "Completed")
    assert "hello" in phalanx(phx, "logs", "said")
    nodes = json.loads(phalanx(phx, "status", "--json"))["nodes"]
    alive = {ray_node(node["node_id"]) for node in nodes if node["state"] == "ALIVE"}
    assert alive >= {ray_node(node.node_id) for node in phx.nodes}


def test_rays_store_keeps_what_is_applied(phx: Phalanx) -> None:
    values = InternalKv(b"phalanx-test")
    storage = Storage([KvShard(values)])
    rows = {("jobs", b"%d" % at): bytes(range(256)) * at for at in range(50)}
    storage.apply(rows)
    storage.apply({("jobs", b"7"): None})
    again = Storage([KvShard(values)])
    assert again.epoch == storage.epoch + 1
    assert dict(again.load("jobs")) == {k: v for (_, k), v in rows.items() if k != b"7"}
    values.delete_all(b"")
    assert not values.keys(b"")
