"""A cluster without nodes gets one for a job that waits, and loses it when the node is idle."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.polling import eventually

STARTS = """#!{python}
import json, os, shutil, subprocess, sys
request = json.load(sys.stdin)
for name in request["names"]:
    home = os.path.join({homes!r}, name)
    os.makedirs(os.path.join(home, ".phalanx"), mode=0o700, exist_ok=True)
    os.makedirs(os.path.join(home, "r"), mode=0o700, exist_ok=True)
    shutil.copy({token!r}, os.path.join(home, ".phalanx", "token"))
    env = dict(os.environ, HOME=home, XDG_RUNTIME_DIR=os.path.join(home, "r"))
    command = [{python!r}, "-m", "phalanx"]
    if {is_up}:
        command += ["start", "--address", request["head"], "--node-name", name, "--num-cpus", "1"]
    else:
        command += ["stop"]
    if subprocess.run(command, env=env, stdout=subprocess.DEVNULL).returncode == 0:
        print(name)
"""
POOLS = """
[pools.cpu]
up = ["{up}"]
down = ["{down}"]
resources = {{ CPU = 1, memory = "1GiB" }}
max = 2
idle = "1s"
boot = "2m"
limit = "2m"
"""


class Place:
    """A head without a node, with its own home directory and the programs of a pool."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="phx-"))  # a short path, for sockets
        (self.home / "r").mkdir(mode=0o700)
        self.env = {**os.environ, "HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.home / "r")}
        self.env.pop("PHALANX_ADDRESS", None)
        for name in ("up", "down"):
            file = self.home / name
            facts = {
                "python": sys.executable,
                "homes": str(self.home / "nodes"),
                "token": str(self.home / ".phalanx" / "token"),
                "is_up": name == "up",
            }
            file.write_text(STARTS.format(**facts))
            file.chmod(stat.S_IRWXU)
        self.pools = self.home / "pools.toml"
        self.pools.write_text(POOLS.format(up=self.home / "up", down=self.home / "down"))

    def phalanx(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "phalanx", *words],
            env=self.env, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def state_of(self, job: str) -> str:
        rows = json.loads(self.phalanx("jobs", "--json"))
        return str({row["name"]: row["state"] for row in rows}[job])

    def living(self) -> list[str]:
        rows = json.loads(self.phalanx("nodes", "--json"))
        return [row["name"] for row in rows if row["state"] != "DEAD"]


@pytest.fixture
def place():
    place = Place()
    try:
        place.phalanx("start", "--head", "--no-node", "--port", "0")
        yield place
    finally:
        for name in ("cpu-1", "cpu-2"):
            subprocess.run(
                [str(place.home / "down")], env=place.env, check=False, timeout=120,
                input=json.dumps({"names": [name], "head": ""}).encode(), capture_output=True,
            )  # fmt: skip
        place.phalanx("stop", "--force", "--forget", "--yes")
        shutil.rmtree(place.home, ignore_errors=True)


@pytest.mark.slow
def test_a_node_comes_for_a_job_and_goes_when_it_is_idle(place):
    refused = subprocess.run(
        [sys.executable, "-m", "phalanx", "run", "--", "true"],
        env=place.env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "could never start here" in refused.stderr
    assert place.phalanx("provision", str(place.pools), "--once") == ""
    place.phalanx("run", "--detach", "--name", "waits", "--", "true")
    assert place.state_of("waits") == "Pending"
    said = place.phalanx("provision", str(place.pools), "--dry-run")
    assert "cpu-1 to be started: work waits for a node" in said
    assert place.living() == []
    place.phalanx("provision", str(place.pools), "--once")
    eventually(lambda: place.state_of("waits") == "Completed")
    assert place.living() == ["cpu-1"]

    log = place.home / "log"
    with log.open("w") as output:
        provisioner = subprocess.Popen(
            [sys.executable, "-m", "phalanx", "provision", str(place.pools), "--every", "1s"],
            env=place.env, stdout=output, stderr=output,
        )  # fmt: skip
    try:
        eventually(lambda: place.living() == [])
    finally:
        provisioner.terminate()
        provisioner.wait(30)
    text = log.read_text()
    assert "cpu-1 drains: it is idle for 1 s" in text
    assert "cpu-1 to be ended: is idle and drained" in text
