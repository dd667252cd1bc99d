"""The environments of a gang on three nodes, each with a cache of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.polling import PATIENCE_S, eventually

import phalanx
from phalanx.api.jobs import JobHandle

UV = """#!/bin/sh
echo "uv of NAME"
HOW
"""
READY = "exit 0"
WAITS = """cat DIR/go
ls DIR/began > DIR/began-before-all-were-ready
exit 0"""
FAILS = """echo "no such package" >&2; exit 3"""


class Nodes:
    """Three nodes with one CPU each, whose uv is replaced by a program of the test."""

    def __init__(self, new_cluster, directory: Path) -> None:
        self.directory = directory
        self.cluster = new_cluster()
        (directory / "began").mkdir()
        os.mkfifo(directory / "go")

    def start(self, *hows: str) -> None:
        for number, how in enumerate(hows):
            home = self.directory / f"n{number}"
            home.mkdir()
            uv = home / "uv"
            text = UV.replace("NAME", f"n{number}").replace("HOW", how)
            uv.write_text(text.replace("DIR", str(self.directory)))
            uv.chmod(0o755)
            own = {"PATH": f"{home}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(home)}
            self.cluster.add_node(num_cpus=1, env_vars=own)
        self.cluster.connect()
        self.cluster.wait_for_nodes(PATIENCE_S)

    def submit(self, **fields) -> JobHandle:
        return phalanx.submit(
            phalanx.Job(
                f": > {self.directory}/began/$PHALANX_TASK_INDEX",
                members=3,
                runtime_env={"uv": ["greeting"]},
                **fields,
            )
        )

    def prepared(self) -> list[str]:
        """Return the nodes in whose caches the environment is ready."""
        found = {one.relative_to(self.directory).parts[0] for one in self.directory.rglob("ready")}
        return sorted(found)


@pytest.fixture
def nodes(new_cluster, tmp_path):
    return Nodes(new_cluster, tmp_path)


def test_no_member_of_a_gang_begins_before_the_last_node_is_ready(nodes):
    nodes.start(READY, WAITS, READY)
    job = nodes.submit()
    eventually(lambda: nodes.prepared() == ["n0", "n2"])
    eventually(lambda: job.state == "Preparing")
    assert list((nodes.directory / "began").iterdir()) == []
    (nodes.directory / "go").write_text("go")
    assert job.wait(PATIENCE_S) == "Completed"
    assert nodes.prepared() == ["n0", "n1", "n2"]
    assert (nodes.directory / "began-before-all-were-ready").read_text() == ""
    began = sorted(one.name for one in (nodes.directory / "began").iterdir())
    assert began == ["0", "1", "2"]


def test_the_failure_of_one_node_ends_the_gang_with_the_last_lines_of_its_tool(nodes):
    nodes.start(READY, READY, FAILS)
    job = nodes.submit(max_retries=3)
    assert job.wait(PATIENCE_S) == "Failed"
    reason = job.describe().reason
    assert "its environment could not be prepared" in reason
    assert "uv of n2\nno such package" in reason
    assert list((nodes.directory / "began").iterdir()) == []
    assert job.describe().retries == 0
    assert len(phalanx.nodes()) == 3
    again = phalanx.submit(phalanx.Job("true", members=3))
    assert again.wait(PATIENCE_S) == "Completed", "all nodes stay in service"
