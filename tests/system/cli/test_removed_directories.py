"""Clusters are found even if others remove their runtime directory, or if a program's variables do
not name it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from pathlib import Path

import pytest
from tests.polling import eventually

from phalanx.protocol.requests.jobs import GetJob

PROGRAM = """
import os, sys
import phalanx
phalanx.init(namespace="here")

class Counter:
    def pid(self):
        return os.getpid()

if sys.argv[1] == "make":
    options = {"name": "counter", "lifetime": "detached", "num_cpus": 0, "get_if_exists": True}
    made = phalanx.remote(Counter).options(**options).remote()
else:
    made = phalanx.get_actor("counter")
print(phalanx.get(made.pid.remote()), phalanx.get(phalanx.remote(num_cpus=0)(lambda: 7).remote()))
"""


def program(machine, word, **env):
    ended = machine.python(PROGRAM, word, **env)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def answers(machine):
    return machine.phalanx("status", "--json").returncode == 0


def state_of(machine, job):
    """Return the job's state; "" while the head has not made its socket again."""
    with contextlib.suppress(ConnectionError):
        return machine.jobs()[job]["state"]
    return ""


def test_a_cluster_whose_directory_is_removed_goes_on_and_is_found(machine):
    machine.start_head("--num-cpus", "2")
    before = machine.daemons()
    actor = program(machine, "make")
    go = os.path.join(machine.home, "go")
    waits = f"echo begins; until [ -e {go} ]; do sleep 0.1; done; echo ends"
    machine.done("run", "--detach", "--name", "waits", "--", "sh", "-c", waits)
    eventually(lambda: machine.jobs()["waits"]["state"] == "Running")
    shutil.rmtree(machine.root)
    eventually(lambda: answers(machine))
    eventually(lambda: machine.daemons() == before, "head and node announce themselves again")
    assert "runs here already" in machine.phalanx("start", "--head").stderr
    assert eventually(lambda: state_of(machine, "waits")) == "Running"
    eventually(lambda: machine.python(PROGRAM, "find").returncode == 0)
    assert program(machine, "find") == actor, "the same process, by its own socket"
    open(go, "w").close()
    eventually(lambda: machine.jobs()["waits"]["state"] == "Completed")
    assert machine.done("logs", "waits") == "begins\nends\n"
    assert machine.done("run", "--", "echo", "new") == "new\n"
    pids = [one.pid for one in before.values()]
    assert machine.done("stop").count("Ended the") == 2
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
    assert "No head and no node runs" in machine.phalanx("status").stderr


def test_daemons_whose_directory_is_removed_at_once_are_found(machine):
    machine.start_head("--num-cpus", "1")
    before = machine.daemons()
    shutil.rmtree(machine.root)
    eventually(lambda: answers(machine))
    eventually(lambda: machine.daemons() == before, "head and node announce themselves again")


def test_a_store_that_is_removed_is_written_again_for_the_next_head(machine):
    address = machine.start_head("--num-cpus", "2")
    store = Path(machine.home, ".phalanx", "store")
    machine.done("run", "--name", "before", "--", "true")
    waits = "until [ -e go ]; do sleep 0.1; done"
    machine.done("run", "--detach", "--name", "waits", "--", "sh", "-c", waits)
    shutil.rmtree(store)
    store.touch()  # no directory can be made there
    eventually(lambda: "was removed" in machine.done("status"), "it is said")
    refused = machine.phalanx("run", "--name", "refused", "--", "true")
    assert refused.returncode == 1
    assert "The head takes no new work" in refused.stderr
    store.unlink()
    eventually(lambda: "was removed" not in machine.done("status"), "it heals")
    machine.done("run", "--name", "after", "--", "true")
    os.killpg(machine.daemons()["head"].pid, signal.SIGKILL)
    machine.done("start", "--head", "--port", address.rpartition(":")[2])
    states = {name: row["state"] for name, row in machine.jobs().items()}
    assert states == {"before": "Completed", "waits": "Running", "after": "Completed"}


def test_a_cluster_is_ended_whose_directory_cannot_be_made_again(machine):
    machine.start_head()
    pids = [one.pid for one in machine.daemons().values()]
    shutil.rmtree(machine.root)
    with open(machine.root, "w"):
        pass
    # This program finds no runtime directory, nor other clusters of this user below /tmp.
    env = {"XDG_RUNTIME_DIR": "/nowhere", "TMPDIR": machine.directory}
    said = machine.phalanx("status", **env)
    assert said.returncode == 1
    assert "cannot be reached" in said.stderr, said.stderr
    assert machine.done("stop", **env).count("Ended the") == 2
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
    os.unlink(machine.root)


def test_a_log_that_others_remove_is_said_to_be_gone(running, tmp_path):
    go = tmp_path / "go"
    waits = f"echo begins; until [ -e {go} ]; do sleep 0.1; done"
    running.done("run", "--detach", "--name", "removed", "--", "sh", "-c", waits)
    eventually(lambda: running.phalanx("logs", "removed").stdout == "begins\n")
    [file] = running.ask(GetJob("removed")).members[0].logs
    os.unlink(file.path)
    go.touch()
    eventually(lambda: running.jobs()["removed"]["state"] == "Completed")
    shown = running.phalanx("logs", "removed")
    assert (shown.returncode, shown.stdout) == (1, "")
    assert "worker-0: its log was removed or moved" in shown.stderr


@pytest.mark.parametrize("directory", ["", "/nowhere"])
def test_programs_without_a_runtime_directory_find_the_cluster(running, directory):
    env = {"XDG_RUNTIME_DIR": directory, "TMPDIR": running.directory}
    assert running.address in running.done("status", **env)
    assert running.done("run", "--", "echo", "found", **env) == "found\n"
    assert program(running, "make", **env)
    named = {**env, "PHALANX_ADDRESS": running.address}
    assert running.address in running.done("status", **named)
    assert program(running, "find", **named)
    assert "runs here already" in running.phalanx("start", "--head", **env).stderr


def test_a_runtime_directory_of_ones_own_keeps_clusters_apart_but_for_an_address(running):
    own = os.path.join(running.directory, "own")  # tmp_path is too long for sockets
    os.mkdir(own, 0o700)
    env = {"XDG_RUNTIME_DIR": own}
    assert "No head and no node runs" in running.phalanx("status", **env).stderr
    assert "No head and no node runs" in running.done("stop", **env)
    assert running.address in running.done("status", "--address", running.address, **env)
    assert running.address in running.done("status", PHALANX_ADDRESS=running.address, **env)
