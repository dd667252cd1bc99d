"""Machines that share no secret except a token, which is in Ray's environment variables."""

from __future__ import annotations

import re

from tests.system.cli.conftest import Machine
from tests.system.cli.test_ray_command import RAY, ray

AMOUNTS = ("--num-cpus", "1", "--object-store-memory", "80000000")


def test_machines_with_one_token_are_one_cluster(machine: Machine) -> None:
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "open-sesame"}
    other = Machine()
    try:
        missing = machine.python(RAY, "start", "--head", RAY_AUTH_MODE="token")
        assert missing.returncode == 4 and "there is no token" in missing.stderr
        ports = ("--port", "0", "--dashboard-port", "0")
        said = ray(machine, "start", "--head", *ports, *AMOUNTS, **token)
        (url,) = re.findall(r"--address (http://\S+)", said)
        address = str(machine.status()["address"])
        join = ("start", "--address", address, *AMOUNTS)
        wrong = other.python(RAY, *join, **token | {"RAY_AUTH_TOKEN": "wrong"})
        assert wrong.returncode == 4 and "do not hold the same token" in wrong.stderr
        ray(other, *join, "--node-name", "far", **token)
        assert {row["name"] for row in machine.status()["nodes"]} > {"far"}
        assert "open-sesame" not in said
        ray(other, "job", "list", "--address", url, **token)
        stranger = other.python(RAY, "job", "list", "--address", url)
        assert stranger.returncode != 0 and "RAY_AUTH_TOKEN" in stranger.stdout + stranger.stderr
    finally:
        other.end()
        machine.python(RAY, "stop", "--force")
