"""A head whose protocol version differs from that of a running node: no work runs twice."""

from __future__ import annotations

import json
import os
import signal

import pytest
from tests.polling import eventually

from phalanx.protocol.messages import PROTOCOL_VERSION

LIMITS = ("--limit", "period_s=1", "--limit", "misses=2", "--limit", "restored_s=1")
SMALL = ("--num-cpus", "1", "--object-store-memory", "80000000")
NEXT = PROTOCOL_VERSION + 1
PATCH = f"""
import sys
sys.path[:] = [one for one in sys.path if one != {{here!r}}]
import phalanx.protocol.messages as messages
messages.PROTOCOL_VERSION = {NEXT}
"""


@pytest.fixture
def next_release(tmp_path):
    """Return environment variables with which programs use the next release, whose protocol version
    differs.
    """
    here = tmp_path / "next"
    here.mkdir()
    (here / "sitecustomize.py").write_text(PATCH.format(here=str(here)))
    return {"PYTHONPATH": str(here)}


def begun(machine, path):
    """Start a job. Returns a function that returns the process ids of all copies of its command
    that have begun, in order to see whether it ran twice.
    """
    script = f"echo $$ >> {path}; exec sleep 1000"
    machine.done("run", "--detach", "--name", "work", "--", "sh", "-c", script)

    def copies():
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    eventually(copies)
    return copies


def lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def kill_head(machine):
    pid = machine.daemons()["head"].pid
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: "head" not in machine.daemons())


def test_a_node_of_another_version_keeps_its_work_until_it_ends(machine, next_release, tmp_path):
    address = machine.start_head(*LIMITS)
    port = address.rpartition(":")[2]
    copies = begun(machine, tmp_path / "copies")
    doomed = machine.join(address, "doomed")
    first = machine.nodes()["first"]["node_id"]
    pids = {name: one.pid for name, one in machine.daemons().items()}
    kill_head(machine)
    os.kill(pids[doomed], signal.SIGKILL)
    machine.done("start", "--head", "--port", port, *LIMITS, **next_release)
    # There would be room for it.
    machine.done("start", "--address", address, *SMALL, "--labels", "name=new", **next_release)
    # Both old nodes were known, and had the same time to come back.
    eventually(lambda: machine.nodes()["doomed"]["state"] == "DEAD")
    node = machine.nodes()["first"]
    assert node["state"] == "ALIVE"
    told = f"it uses version {PROTOCOL_VERSION} of the protocol, and this head uses version {NEXT}"
    assert told in node["reason"]
    assert machine.jobs()["work"]["state"] == "Running"
    (copy,) = copies()
    assert lives(copy)
    (trouble,) = machine.status()["troubles"]
    assert f"1 nodes use another version of the protocol than this head (version {NEXT})" in trouble
    healthy = machine.phalanx("health", "--json", **next_release)
    assert healthy.returncode == 1
    bad = [one["said"] for one in json.loads(healthy.stdout)["findings"] if one["state"] == "bad"]
    assert bad == [trouble]
    events = machine.done("events", "--kind", "node", **next_release)
    assert told in events
    # The node is ended, as its upgrade begins: then its work starts elsewhere, and not before.
    os.kill(pids[first], signal.SIGTERM)
    eventually(lambda: len(copies()) == 2)
    assert not lives(copy)
    assert machine.status()["troubles"] == []
    assert machine.nodes()["first"]["state"] == "DEAD"


def test_a_head_of_the_old_version_again_finds_everything_as_it_was(
    machine, next_release, tmp_path
):
    address = machine.start_head(*LIMITS)
    port = address.rpartition(":")[2]
    copies = begun(machine, tmp_path / "copies")
    kill_head(machine)
    head = ("start", "--head", "--port", port, *LIMITS)
    machine.done(*head, **next_release)
    eventually(lambda: machine.status()["troubles"])
    kill_head(machine)
    machine.done(*head)
    eventually(lambda: machine.nodes()["first"]["reason"] == "")
    assert machine.jobs()["work"]["state"] == "Running"
    assert len(copies()) == 1


def test_a_node_that_was_given_up_is_told_so_and_ends_its_work(machine, next_release, tmp_path):
    address = machine.start_head(*LIMITS)
    port = address.rpartition(":")[2]
    copies = begun(machine, tmp_path / "copies")
    (copy,) = copies()
    node = machine.daemons()[machine.nodes()["first"]["node_id"]].pid
    os.kill(node, signal.SIGSTOP)
    gateways = [pid for pid in children(node) if command(pid) == "phalanx-gateway"]
    for pid in gateways:
        os.kill(pid, signal.SIGSTOP)
    try:
        kill_head(machine)
        machine.done("start", "--head", "--port", port, *LIMITS, **next_release)
        eventually(lambda: machine.nodes()["first"]["state"] == "DEAD")
    finally:
        for pid in (*gateways, node):
            os.kill(pid, signal.SIGCONT)
    eventually(lambda: not lives(copy))


def test_a_program_of_another_version_is_refused_with_what_to_do(machine, next_release):
    machine.start_head()
    ended = machine.python("import phalanx; phalanx.init('auto')", **next_release)
    assert ended.returncode == 1
    said = ended.stderr.splitlines()[-1]
    assert said.startswith("ValueError: This program has another release of Phalanx")
    assert f"versions {NEXT} and {PROTOCOL_VERSION} of the protocol" in said


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def command(pid):
    with open(f"/proc/{pid}/comm") as file:
        return file.read().strip()
