"""The cluster's token is rotated while nodes and jobs run, and nothing stops."""

from __future__ import annotations

import shutil
from typing import Any


def copied(machine: Any, name: str) -> str:
    """Copy the token's file, as an administrator would to another machine; return the path of the
    copy.
    """
    path = f"{machine.directory}/{name}"
    shutil.copy(f"{machine.home}/.phalanx/token", f"{path}.new")
    shutil.move(f"{path}.new", path)
    return path


def test_jobs_and_nodes_go_on_while_the_token_changes(machine: Any) -> None:
    address = machine.start_head()
    old, far = copied(machine, "old"), copied(machine, "far")
    machine.join(address, "far", "--token-file", far)
    machine.done("run", "--detach", "--name", "long", "--gang", "2", "--", "sleep", "1000")
    for step in ("add", "show", "drop"):
        assert "Copy it to all other machines" in machine.done("token", "cluster", step)
        copied(machine, "far")
        assert machine.done("run", "--cpus", "0", "--", "echo", step) == f"{step}\n"
        third = ("start", "--address", address, "--num-cpus", "0", "--num-gpus", "0")
        machine.done(*third, "--object-store-memory", "80000000", "--node-name", f"after-{step}")
    refused = machine.phalanx(
        "start", "--address", address, "--num-cpus", "0", "--num-gpus", "0", "--token-file", old
    )
    assert refused.returncode == 4
    assert machine.jobs()["long"]["state"] == "Running"
    states = {
        row["name"] or row["labels"].get("name"): row["state"] for row in machine.status()["nodes"]
    }
    assert set(states.values()) == {"ALIVE"}
    assert len(states) == 5
    machine.done("cancel", "long")


def test_steps_in_the_wrong_order_are_refused(machine: Any) -> None:
    machine.start_head()
    done = machine.phalanx("token", "cluster", "drop")
    assert (done.returncode, "no rotation is under way" in done.stderr) == (1, True)
    done = machine.phalanx("token", "cluster", "shw")
    assert (done.returncode, "did you mean 'show'?" in done.stderr) == (2, True)
