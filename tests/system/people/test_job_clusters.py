"""A program whose tasks, actors and gangs run on all members of its job, as its submitter."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial

import pytest
from tests.polling import eventually
from tests.system.people.system_machine import (
    ACCOUNTS,
    SystemMachine,
    processes_of,
    started,
)

ANA, BO = ACCOUNTS["ana"], ACCOUNTS["bo"]
PROGRAM = """
import os, sys
import phalanx

phalanx.init()
nodes = [node for node in phalanx.nodes() if node["Alive"]]
print("cluster", len(nodes), phalanx.cluster_resources()["CPU"], flush=True)

@phalanx.remote(num_cpus=1, scheduling_strategy="SPREAD")
def where():
    return os.getuid(), os.environ["PHALANX_TASK_INDEX"], len(os.listdir(os.path.expanduser("~")))

@phalanx.remote(num_cpus=1)
class Actor:
    def uid(self):
        return os.getuid()

@phalanx.remote(num_cpus=1)
def rank():
    return os.getuid()

value = phalanx.put(bytes(2_000_000))
@phalanx.remote(num_cpus=1, scheduling_strategy="SPREAD")
def size(data):
    return len(data)

found = set()
while len({index for _, index, _ in found}) < 2:
    found |= set(phalanx.get([where.remote() for _ in range(4)]))
actors = [Actor.remote() for _ in range(2)]
print("tasks", {uid for uid, _, _ in found}, sorted({index for _, index, _ in found}))
print("actors", set(phalanx.get([one.uid.remote() for one in actors])))
print("sizes", set(phalanx.get([size.remote(value) for _ in range(4)])))
for one in actors:
    phalanx.kill(one)
print("gang", set(phalanx.get(rank.gang(2).remote())), flush=True)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def machine() -> Iterator[SystemMachine]:
    for made in started(SystemMachine):
        program_of_tasks(made)
        yield made


def has_ended(machine: SystemMachine, name: str, state: str) -> bool:
    return bool(machine.job(name)["state"] == state)


def is_quiet(uid: int) -> bool:
    """Whether an account has no process but its fork server."""
    return len(processes_of(uid)) <= 1


def program_of_tasks(machine: SystemMachine) -> None:
    """Write the program that the job runs."""
    path = os.path.join(machine.directory, "program.py")
    with open(path, "w") as file:
        file.write(PROGRAM)
    os.chmod(path, 0o644)


def words(machine: SystemMachine, *program: str) -> list[str]:
    phalanx = [sys.executable, "-m", "phalanx", "symmetric-run", "--object-store-memory", "80MB"]
    return [*phalanx, "--", sys.executable, os.path.join(machine.directory, "program.py"), *program]


def test_tasks_actors_and_gangs_run_as_the_account_on_all_members(machine: SystemMachine) -> None:
    gang = ("--gang", "2", "--cpus", "2")
    for account, uid in (("ana", ANA), ("bo", BO)):
        machine.said(account, "run", "--name", f"wide-{account}", *gang, "--", *words(machine, "0"))
        said = machine.said(account, "logs", f"wide-{account}")
        for line in ("cluster 2 4.0", "['0', '1']", "sizes {2000000}"):
            assert line in said, said
        for kind in ("tasks", "actors", "gang"):
            assert f"{kind} {{{uid}}}" in said, said
        eventually(partial(has_ended, machine, f"wide-{account}", "Completed"))
    for uid in (ANA, BO):
        eventually(partial(is_quiet, uid), "the end of all but fork servers")


def test_the_programs_code_is_the_jobs(machine: SystemMachine) -> None:
    ended = machine.phalanx(
        "ana", "run", "--name", "fails", "--gang", "2", "--cpus", "2", "--", *words(machine, "3")
    )
    assert ended.returncode == 3, ended.stdout + ended.stderr
    eventually(partial(has_ended, machine, "fails", "Failed"))


def test_the_secret_is_the_gangs_alone(machine: SystemMachine) -> None:
    script = "cat $PHALANX_FILES/secret; readlink -f $PHALANX_FILES/secret"
    secrets: set[str] = set()
    for account in ("ana", "ana", "bo"):
        name = f"secret-{len(secrets)}"
        machine.said(account, "run", "--name", name, "--gang", "2", "--", "sh", "-c", script)
        said = machine.said(account, "logs", name).split()
        (secret,) = {word for word in said if "phx_" in word}
        secrets.add(secret)
        (path,) = {word for word in said if word.endswith("/secret")}
        for other in {"ana", "bo"} - {account}:
            assert machine.run(other, "/bin/cat", path).returncode != 0
    assert len(secrets) == 3
    machine.said("ana", "run", "--name", "alone", "--", "sh", "-c", script)
    (alone,) = {word for word in machine.said("ana", "logs", "alone").split() if "phx_" in word}
    assert alone not in secrets, "a job with one member has a secret of its own, too"


def test_outside_of_a_gang_it_says_what_to_do(machine: SystemMachine) -> None:
    refused = machine.phalanx("ana", "symmetric-run", "--", "true")
    assert refused.returncode == 2 and "phalanx run --gang" in refused.stderr


def test_nothing_is_left_of_a_cluster_that_is_cancelled(machine: SystemMachine) -> None:
    program = os.path.join(machine.directory, "long.py")
    with open(program, "w") as file:
        file.write(
            "import time, phalanx\nphalanx.init()\n@phalanx.remote\ndef long(): time.sleep(600)\n"
            "started = [long.remote() for _ in range(4)]\nprint('begun', flush=True)\n"
            "phalanx.get(started)\n"
        )
    os.chmod(program, 0o644)
    command = [*words(machine)[:-1], program]
    gang = ("--gang", "2", "--cpus", "2", "--grace", "5s")
    machine.said("ana", "run", "-d", "--name", "long", *gang, "--", *command)
    eventually(lambda: "begun" in machine.said("ana", "logs", "long"))
    machine.said("ana", "cancel", "long")
    eventually(partial(has_ended, machine, "long", "Terminated"))
    eventually(partial(is_quiet, ANA), "the end of all but the fork server")
