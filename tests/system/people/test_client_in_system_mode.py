"""A program on a laptop whose tasks and actors run as the holder of its token."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
from tests.polling import eventually
from tests.system.people.cut_link import Wire
from tests.system.people.system_machine import (
    ACCOUNTS,
    NODE_USER,
    SystemMachine,
    processes_of,
    started,
)
from tests.system.people.test_client_driver import (
    Program,
    cut_for_two_tries,
    send,
    works_over_a_cut,
)
from tests.system.people.test_login import Laptop

ANA, NODE_UID = ACCOUNTS["ana"], ACCOUNTS[NODE_USER]
PROGRAM = """
import json, os, sys, phalanx

phalanx.init("phalanx://lab", **json.loads(sys.argv[1]))

@phalanx.remote
def who():
    return os.getuid(), phalanx.get_gpu_ids()

@phalanx.remote(num_cpus=1)
class Actor:
    def uid(self):
        return os.getuid()

@phalanx.remote(num_cpus=0.5)
def rank():
    return os.getuid()

print(json.dumps({
    "task": phalanx.get(who.remote()),
    "actor": phalanx.get(Actor.remote().uid.remote()),
    "gang": phalanx.get(rank.gang(2).remote()),
    "cpus": phalanx.cluster_resources()["CPU"],
    "nodes": len(phalanx.nodes()),
}))
phalanx.shutdown()
"""


@pytest.fixture(scope="module")
def machine() -> Iterator[SystemMachine]:
    yield from started(SystemMachine)


@pytest.fixture
def laptop() -> Iterator[Laptop]:
    made = Laptop()
    yield made
    made.end()


@pytest.fixture(scope="module")
def token(machine: SystemMachine) -> str:
    return machine.said(NODE_USER, "token", "create", "ana").strip()


@pytest.fixture
def wire(machine: SystemMachine, laptop: Laptop, token: str) -> Iterator[Wire]:
    """Yield the laptop's connection to the head, over which the laptop has logged in as ana."""
    made = Wire(machine.head_address())
    said = laptop.typed(token, "login", made.address, "--name", "lab")
    assert said.returncode == 0, said.stderr
    yield made
    made.close()


def ran(laptop: Laptop, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(options)],
        env=laptop.env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.usefixtures("wire")
def test_the_work_of_a_laptop_runs_as_its_user(machine: SystemMachine, laptop: Laptop) -> None:
    done = ran(laptop, num_cpus=2)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "task": [ANA, []], "actor": ANA, "gang": [ANA, ANA], "cpus": 2.0, "nodes": 1,
    }  # fmt: skip
    row = machine.said(NODE_USER, "jobs", "--all", "-o", "NAME,USER,STATE", "--no-headers")
    ((name, *rest),) = (line.split() for line in row.splitlines() if line.startswith("client-"))
    assert rest[0] == "ana", row
    eventually(lambda: machine.job(name)["state"] == "Completed")
    eventually(lambda: len(processes_of(ANA)) <= 1)  # the account's fork server stays


@pytest.mark.usefixtures("wire")
def test_only_the_size_of_the_job_can_be_chosen(laptop: Laptop) -> None:
    done = ran(laptop, num_cpus=1, resources={"license": 1})
    assert done.returncode == 1
    assert "resources must not be provided" in done.stderr
    assert "Only num_cpus and num_gpus set the size of the program's own job." in done.stderr


@pytest.fixture
def marks(machine: SystemMachine, request: pytest.FixtureRequest) -> Path:
    """Return a directory of ana's in which tasks leave marks."""
    folder = Path(machine.home("ana"), request.node.name)
    folder.mkdir()
    os.chown(folder, ANA, ANA)
    return folder


def test_a_cut_link_loses_and_doubles_nothing(laptop: Laptop, wire: Wire, marks: Path) -> None:
    works_over_a_cut(laptop, marks, partial(cut_for_two_tries, wire))


@pytest.mark.usefixtures("wire")
def test_the_work_goes_on_when_the_head_is_killed(
    machine: SystemMachine, laptop: Laptop, marks: Path
) -> None:
    """A head that has just started must first find out how to reach the driver."""
    port = machine.head_address().rpartition(":")[2]

    def kill(program: Program) -> None:
        heads = [one for one in map(psutil.Process, processes_of(NODE_UID)) if is_head(one)]
        (head,) = (one for one in heads if one.parent() not in heads)
        head.kill()
        send(program)
        machine.said(NODE_USER, "start", "--head", "--port", port, "--shared", "--system")

    works_over_a_cut(laptop, marks, kill)


def is_head(process: psutil.Process) -> bool:
    """Whether this process is the head, or was started by it."""
    return "phalanx.runtime.head.process" in process.cmdline()
