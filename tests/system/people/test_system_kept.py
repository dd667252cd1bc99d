"""Jobs that run as their submitters continue when their node's process ends, and the node's next
process finds them.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Iterator
from functools import partial

import pytest
from tests.node_parts import name_of
from tests.polling import eventually
from tests.system.people.system_machine import (
    ACCOUNTS,
    NODE,
    NODE_USER,
    SystemMachine,
    processes_of,
    started,
)

from phalanx.runtime.os.process_names import NODE as NODE_PROCESS
from phalanx.runtime.os.process_tree import is_dead

ANA, BO = ACCOUNTS["ana"], ACCOUNTS["bo"]
NODE_NAME = NODE_PROCESS.decode()


class KeptMachine(SystemMachine):
    """A head without a node, and a node that runs as a separate account. The tests kill the node
    repeatedly.
    """

    def __init__(self) -> None:
        super().__init__()
        self.address = ""

    def start(self, *options: str) -> None:
        """Start the head alone, and root's program with the head's key."""
        self.said(
            NODE_USER, "start", "--head", "--no-node", "--port", "0", "--shared", "--system",
            "--limit", "restart_s=120", *options,
        )  # fmt: skip
        self.trust_head()
        self.address = self.head_address()

    def start_node(self) -> int:
        """Start the node; return its pid."""
        words = ("start", "--address", self.address, "--node-name", NODE, "--system")
        small = ("--num-cpus", "32", "--num-gpus", "0", "--object-store-memory", "80000000")
        before = self.nodes()
        self.said(NODE_USER, *words, *small)
        (pid,) = self.nodes() - before
        return pid

    def node(self) -> int:
        """Return the pid of the node. Start the node first if it does not run."""
        return next(iter(self.nodes()), 0) or self.start_node()

    def nodes(self) -> set[int]:
        """Return the pids of all nodes."""
        found = {pid for pid in processes_of(ACCOUNTS[NODE_USER]) if name_of(pid) == NODE_NAME}
        return {pid for pid in found if not is_dead(pid)}

    def over(self) -> set[str]:
        """Return the names of jobs that have ended by themselves."""
        rows = json.loads(self.said(NODE_USER, "jobs", "--all", "--json"))
        return {row["name"] for row in rows if row["state"] in ("Completed", "Failed")}

    def submit(self, account: str, name: str, script: str, *options: str) -> None:
        self.said(account, "run", "-d", "--name", name, *options, "--", "sh", "-c", script)


@pytest.fixture(scope="module")
def machine() -> Iterator[KeptMachine]:
    yield from started(KeptMachine)


def until(path: str) -> str:
    return f"until test -e {path}; do sleep 0.1; done"


@pytest.fixture
def go(machine: KeptMachine) -> Iterator[str]:
    """Yield a directory in which all accounts may make files."""
    path = tempfile.mkdtemp(dir=machine.directory)
    os.chmod(path, 0o777)
    yield path


def touch(path: str) -> None:
    with open(path, "w"):
        pass


def of_both(n: int) -> str:
    return ("ana", "bo")[n % 2]


def has_said(machine: KeptMachine, account: str, name: str, lines: list[str]) -> bool:
    """Whether these lines are the whole output of a job."""
    return machine.said(account, "logs", name).splitlines() == lines


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("kills", "jobs"), [(2, 4), pytest.param(20, 20, marks=pytest.mark.slow)])
def test_jobs_of_two_accounts_end_as_if_their_node_had_not_been_killed(
    machine: KeptMachine, go: str, kills: int, jobs: int
) -> None:
    node = machine.node()
    for n in range(jobs):
        script = f"echo begins >> {go}/begun{n}; id -u; seq 1 100; {until(f'{go}/{n}')}; "
        script += f"echo of {n}; exit {n % 5}"
        machine.submit(of_both(n), f"job{kills}-{n}", script)
    eventually(lambda: all(os.path.exists(f"{go}/begun{n}") for n in range(jobs)), "all jobs")
    for killed in range(kills):
        os.kill(node, signal.SIGKILL)
        if killed < jobs - 1:  # it ends while there is no node
            touch(f"{go}/{killed}")
        node = machine.start_node()
    for n in range(jobs):
        touch(f"{go}/{n}")
    names = [f"job{kills}-{n}" for n in range(jobs)]
    eventually(lambda: {*names} <= machine.over(), "the ends of all jobs", 480)
    for n, name in enumerate(names):
        account = of_both(n)
        (member,) = json.loads(machine.said(account, "job", name, "--json"))["members"]
        assert (member["exit_code"], member["attempt"]) == (n % 5, 1), member
        with open(f"{go}/begun{n}") as file:
            assert file.read() == "begins\n"
        lines = [str(ACCOUNTS[account]), *map(str, range(1, 101)), f"of {n}"]
        # The head may have no connection to the new process of the node yet.
        eventually(partial(has_said, machine, account, name, lines), f"the output of {name}")


def test_head_and_node_restart_under_a_job(machine: KeptMachine, go: str) -> None:
    machine.node()
    machine.submit("ana", "through", f"id -u; {until(f'{go}/go')}; exit 3")
    eventually(lambda: machine.job("through")["state"] == "Running")
    machine.said(NODE_USER, "restart")
    touch(f"{go}/go")
    eventually(lambda: "through" in machine.over())
    (member,) = json.loads(machine.said("ana", "job", "through", "--json"))["members"]
    assert (member["exit_code"], member["attempt"]) == (3, 1), member
    assert machine.said("ana", "logs", "through") == f"{ANA}\n"


def test_a_job_that_outlived_its_node_is_cancelled_with_all_that_it_has_started(
    machine: KeptMachine,
) -> None:
    node = machine.node()
    machine.submit("ana", "left", "setsid sleep 1000 & sleep 1000")
    eventually(lambda: len(sleeping(ANA)) == 2)
    os.kill(node, signal.SIGKILL)
    machine.start_node()
    assert len(sleeping(ANA)) == 2
    machine.said("ana", "cancel", "left")
    eventually(lambda: not sleeping(ANA))


def test_an_account_whose_fork_server_is_stopped_loses_its_work_when_its_node_comes_back(
    machine: KeptMachine,
) -> None:
    node = machine.node()
    machine.submit("bo", "beside", "sleep 1000")
    stop = 'kill -STOP "$(grep PPid /proc/$PPID/status | cut -f2)"; sleep 1000'
    machine.submit("ana", "stopper", stop)
    eventually(lambda: sleeping(ANA) and sleeping(BO))
    os.kill(node, signal.SIGKILL)
    machine.start_node()
    eventually(lambda: machine.job("stopper")["state"] == "Failed")
    assert not sleeping(ANA)
    assert machine.job("beside")["state"] == "Running" and sleeping(BO)
    machine.said("bo", "cancel", "beside")


def test_a_stop_ends_jobs_whose_node_is_gone(machine: KeptMachine) -> None:
    node = machine.node()
    for account in ("ana", "bo"):
        machine.submit(account, f"last-{account}", "sleep 1000")
    eventually(lambda: sleeping(ANA) and sleeping(BO))
    os.kill(node, signal.SIGKILL)
    eventually(lambda: not machine.nodes())
    assert sleeping(ANA) and sleeping(BO)
    machine.said(NODE_USER, "stop")
    assert not processes_of(ANA) and not processes_of(BO)


def sleeping(uid: int) -> list[int]:
    """Return the processes of an account whose program is `sleep`."""
    return [pid for pid in processes_of(uid) if name_of(pid) == "sleep"]
