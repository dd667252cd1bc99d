"""Programs in Python that send requests to the head of another account, or to a head on another
machine with a token.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.polling import eventually
from tests.system.cli.conftest import Machine
from tests.system.people.conftest import SharedMachine
from tests.system.people.test_tokens import Laptop

WORK = """
import sys, phalanx
if len(sys.argv) > 1:
    phalanx.init(sys.argv[1])
job = phalanx.submit(phalanx.Job("echo from-python", name="from-python"))
print("state", job.wait(timeout_s=60))
print("said", job.logs().strip())
print("user", job.status().user)
print("listed", "from-python" in [row.name for row in phalanx.jobs()])
print("cpus", phalanx.cluster_resources()["CPU"] > 0, len(phalanx.nodes()))
job.delete()
"""
DONE = ["state Completed", "said from-python", "user {}", "listed True", "cpus True 1"]
REFUSALS = """
import sys, phalanx
from phalanx.errors import NotAllowedError

phalanx.init("auto")
held = phalanx.JobHandle("held")

@phalanx.remote
def task(): pass

@phalanx.remote
class Actor: pass

def tries():
    yield "cancel", lambda: held.cancel()
    yield "suspend", lambda: held.suspend()
    yield "requeue", lambda: held.requeue()
    yield "signal", lambda: held.signal("USR1")
    yield "logs", lambda: held.logs()
    yield "explain", lambda: held.explain()
    yield "queue", lambda: phalanx.create_queue("stolen")
    yield "task", lambda: task.remote()
    yield "actor", lambda: Actor.remote()
    yield "put", lambda: phalanx.put(1)
    yield "gang", lambda: task.gang(1).remote()

for name, call in tries():
    try:
        print(name, "done", call())
    except NotAllowedError as error:
        print(name, "refused:", error)
"""


@pytest.fixture
def laptop(machine: Machine) -> Iterator[Laptop]:
    made = Laptop(machine.start_head())
    yield made
    made.end()


@pytest.mark.parametrize("where", ["auto", "unix", "variable"])
def test_jobs_from_python_on_the_head_of_another_account(
    shared: SharedMachine, ana: str, where: str
) -> None:
    (port,) = os.listdir(shared.shared)
    address = f"unix:{shared.shared}/{port}"
    words = {"auto": ["auto"], "unix": [address], "variable": []}[where]
    env = {"PHALANX_ADDRESS": address} if where == "variable" else {}
    ended = shared.as_user(ana, *words, code=WORK, **env)
    assert ended.stdout.splitlines() == [line.format(ana) for line in DONE], ended.stderr


def test_a_refusal_says_rule_and_way_out_in_python(
    shared: SharedMachine, ana: str, bo: str
) -> None:
    shared.said(ana, "run", "-d", "--name", "held", "--", "sleep", "600")
    eventually(lambda: shared.jobs()["held"]["state"] == "Running")
    ended = shared.as_user(bo, code=REFUSALS)
    said = dict(line.split(" ", 1) for line in ended.stdout.splitlines())
    assert len(said) == 11, ended.stdout + ended.stderr
    assert all(text.startswith("refused:") for text in said.values()), ended.stdout
    for name in ("cancel", "suspend", "requeue", "signal", "logs", "explain", "queue"):
        assert f"unix:{bo} may not" in said[name] and (
            "are for" in said[name] or "needs" in said[name] or "own" in said[name]
        ), said[name]
    for name in ("task", "actor", "put", "gang"):
        assert "stay within one account" in said[name] and "phalanx.submit" in said[name]
    assert shared.jobs()["held"]["state"] == "Running"
    shared.said(ana, "cancel", "held")


def test_jobs_from_python_with_a_token(machine: Machine, laptop: Laptop) -> None:
    machine.done("token", "create", "ci", "--file", laptop.token)
    ended = laptop.python(WORK)
    assert ended.stdout.splitlines() == [line.format("ci") for line in DONE], ended.stderr
    machine.done("token", "revoke", "ci")
    refused = laptop.python(WORK)
    assert refused.returncode and "does not know this token" in refused.stderr


def test_a_program_with_a_node_of_its_own_does_not_visit(machine: Machine) -> None:
    machine.start_head()
    code = "import phalanx; phalanx.init('auto'); print(phalanx.get(phalanx.put(3)))"
    assert machine.python(code).stdout == "3\n"
