"""The resources of a node, which follow from its configuration."""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from phalanx.model.gpu_sharing import MPS
from phalanx.runtime.node.config import NodeConfig
from phalanx.runtime.node.setup import node_setup
from phalanx.runtime.os import session as sessions

Configured = Callable[..., NodeConfig]


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Configured]:
    """Return a function that configures nodes of a machine with the MPS daemon."""
    program = tmp_path / "nvidia-cuda-mps-control"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    declared = tmp_path / "devices.json"
    declared.write_text(json.dumps({"devices": [{"uuid": "GPU-a", "memory_total": 2**30}]}))
    with tempfile.TemporaryDirectory(prefix="px-") as folder:

        def make(is_declared: bool, launch: str) -> NodeConfig:
            found = {} if is_declared else {MPS: 1.0}
            return NodeConfig(
                session=sessions.create(str(Path(folder) / "r")),
                resources={"CPU": 2.0, "GPU": 1.0, **found},
                labels={},
                object_store_bytes=1 << 20,
                node_id=secrets.token_hex(28),
                devices=str(declared) if is_declared else "",
                launch=launch,
            )

        yield make


@pytest.mark.parametrize("is_declared", [True, False])
def test_a_node_whose_jobs_run_as_their_submitters_has_no_mps(
    configured: Configured, is_declared: bool
) -> None:
    """The daemon runs as the node's user, and cannot serve another account."""
    assert node_setup(configured(is_declared, "")).resources.total()[MPS] == 1
    of_submitters = node_setup(configured(is_declared, "/run/phalanx-launch/socket"))
    assert MPS not in of_submitters.resources.total()
