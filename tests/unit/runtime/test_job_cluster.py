"""The facts that a member of a gang learns from its environment variables and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from phalanx.runtime.daemons.job_cluster import read_member

VARIABLES = {
    "RANK": "1",
    "WORLD_SIZE": "3",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "29500",
    "PHALANX_NODE_ADDRESS": "10.0.0.2",
    "PHALANX_CPUS": "2.5",
    "CUDA_VISIBLE_DEVICES": "3,5",
}


def test_a_member_knows_its_cluster(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("phx_secret")
    member = read_member({**VARIABLES, "PHALANX_FILES": str(tmp_path)})
    assert (member.rank, member.size, member.local_size) == (1, 3, 2)
    assert (member.head, member.host, member.cpus) == ("10.0.0.1:29500", "10.0.0.2", 2.5)
    assert member.devices == {"GPU": 2} and member.secret == "phx_secret"
    without = {**VARIABLES, "PHALANX_FILES": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
    assert read_member(without).devices == {}


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"])
def test_other_processes_are_told_what_to_do(tmp_path: Path, name: str) -> None:
    variables = {**VARIABLES, "PHALANX_FILES": str(tmp_path)}
    del variables[name]
    with pytest.raises(LookupError, match=f"{name} is not set.*phalanx run --gang"):
        read_member(variables)


def test_a_gang_without_a_secret_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="no secret"):
        read_member({**VARIABLES, "PHALANX_FILES": str(tmp_path)})
