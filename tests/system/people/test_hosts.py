"""Two accounts on three simulated machines. Jobs, gangs, and programs with tasks run as their
submitters, and neither account can reach what the other one runs.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import pytest
from tests.node_parts import name_of
from tests.polling import eventually
from tests.present import present
from tests.system.cli.conftest import COMMAND
from tests.system.cluster.network import IP, Host, Network, why_no_hosts
from tests.system.people.system_machine import (
    ACCOUNTS,
    NODE_USER,
    SystemMachine,
    kill_launch,
    need_root,
    processes_of,
)
from tests.system.people.test_job_clusters import program_of_tasks, words

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
ANA, BO = ACCOUNTS["ana"], ACCOUNTS["bo"]
OTHER = {"ana": "bo", "bo": "ana"}
NAMES = ("host2", "host3")


class ThreeHosts(SystemMachine):
    """A head on one host and nodes on two others. All hosts know the same accounts."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.hosts: list[Host] = [network.add_host() for _ in range(3)]
        self.enter(self.hosts[0])

    def enter(self, host: Host) -> None:
        """Run all later programs on this host."""
        self.prefix = [present(IP), "netns", "exec", host.namespace]

    def start(self, *options: str) -> None:
        """Start the head, and on each other host a node and root's program."""
        self.said(
            NODE_USER, "start", "--head", "--no-node", "--port", "0", "--shared", "--system",
            "--host", self.hosts[0].address, *options,
        )  # fmt: skip
        address = self.head_address()
        self.launches: list[subprocess.Popen[str]] = []
        for host, name in zip(self.hosts[1:], NAMES, strict=True):
            there = copy.copy(self)
            there.enter(host)
            run = f"/run/launch-{name}"
            if not self.launches:
                self.trust_head()
                kill_launch(present(self.launch))
                self.launch = None
            there.start_launch(node=name, run=run, state=f"{run}-state")
            self.launches.append(present(there.launch))
            command = [sys.executable, "-c", COMMAND, "start", "--address", address]
            command += ["--host", host.address]
            command += ["--node-name", name, "--system", "--num-cpus", "2", "--num-gpus", "0"]
            command += ["--object-store-memory", "80000000"]
            done = there.run(NODE_USER, *command, PHALANX_LAUNCH=f"{run}/socket")
            assert done.returncode == 0, done.stdout + done.stderr

    def stop(self) -> None:
        for launch in self.launches:
            kill_launch(launch)
        self.end()


@pytest.fixture(scope="module")
def machine() -> Iterator[ThreeHosts]:
    need_root()
    if reason := why_no_hosts():
        pytest.skip(reason)
    network = Network()
    made = ThreeHosts(network)
    try:
        made.start()
        program_of_tasks(made)
        yield made
    finally:
        made.stop()
        network.close()


def test_jobs_and_gangs_run_as_their_submitters_on_both_nodes(machine: ThreeHosts) -> None:
    for account in ("ana", "bo"):
        name = f"pair-{account}"
        gang = ("--name", name, "--gang", "2", "--cpus", "2")
        machine.said(account, "run", *gang, "--", "sh", "-c", "id -u; echo at $PHALANX_NODE_IP")
        said = machine.said(account, "logs", name)
        assert said.count(f"{ACCOUNTS[account]}\n") == 2, said
        members = json.loads(machine.said(account, "job", name, "--json"))["members"]
        assert len({one["node"] for one in members}) == 2, members
        assert machine.job(name)["user"] == account


def test_tasks_actors_gangs_and_objects_of_a_program_cross_the_hosts(machine: ThreeHosts) -> None:
    for account in ("ana", "bo"):
        name, uid = f"wide-{account}", ACCOUNTS[account]
        gang = ("--name", name, "--gang", "2", "--cpus", "2")
        machine.said(account, "run", "-d", *gang, "--", *words(machine, "0"))
        eventually(partial(is_over, machine, name), within_s=480)
        said = machine.said(account, "logs", name)
        for line in ("cluster 2 4.0", "['0', '1']", "sizes {2000000}"):
            assert line in said, said
        for kind in ("tasks", "actors", "gang"):
            assert f"{kind} {{{uid}}}" in said, said


def test_neither_account_reaches_what_the_other_runs(machine: ThreeHosts) -> None:
    for account in ("ana", "bo"):
        script = f"echo secret-of-{account}; echo mine > $HOME/note; sleep 1000"
        gang = ("--name", f"held-{account}", "--gang", "2", "--cpus", "0")
        machine.said(account, "run", "-d", *gang, "--", "sh", "-c", script)
    eventually(lambda: all(len(sleeping(uid)) == 2 for uid in (ANA, BO)))
    for account, other in OTHER.items():
        uid = ACCOUNTS[other]
        tries = [f"cat {machine.home(other)}/note"]
        for pid in sleeping(uid):
            log = os.readlink(f"/proc/{pid}/fd/1")
            tries += [
                f"kill -0 {pid}",
                f"cat /proc/{pid}/environ",
                f"cat /proc/{pid}/fd/1",
                f"ls /proc/{pid}/cwd/ /proc/{pid}/fd",
                f"cat {log}",
                f"ls {os.path.dirname(log)}",
            ]
        tries += [f"ls {machine.runtime(NODE_USER)}", "cat /run/launch-host*-state/*"]
        script = "; ".join(f"{{ {one}; }} >/dev/null 2>&1; echo $?" for one in tries)
        gang = ("--name", f"nosy-{account}", "--gang", "2", "--cpus", "0")
        machine.said(account, "run", *gang, "--", "sh", "-c", script)
        lines = machine.said(account, "logs", f"nosy-{account}").splitlines()
        codes = [line.split()[-1] for line in lines]
        assert len(codes) == 2 * len(tries) and "0" not in codes, dict(
            zip(tries * 2, codes, strict=True)
        )
        for command in (("logs",), ("cancel",), ("job",), ("suspend",)):
            refused = machine.phalanx(account, *command, f"held-{other}")
            assert refused.returncode == 4 and "may not" in refused.stderr, refused.stderr
    for account in ("ana", "bo"):
        assert machine.job(f"held-{account}")["state"] == "Running"
        machine.said(account, "cancel", f"held-{account}")
    eventually(lambda: not sleeping(ANA) and not sleeping(BO))


def test_history_and_shares_follow_the_accounts(machine: ThreeHosts) -> None:
    rows = json.loads(machine.said(NODE_USER, "jobs", "--all", "--json"))
    users = {row["name"]: row["user"] for row in rows}
    assert all(user == name.rpartition("-")[2] for name, user in users.items()), users
    shares = machine.said(NODE_USER, "shares")
    assert "ana" in shares and "bo" in shares and "victim" not in shares, shares


def is_over(machine: ThreeHosts, name: str) -> bool:
    return machine.job(name)["state"] in ("Completed", "Failed")


def sleeping(uid: int) -> list[int]:
    """Return the processes of an account whose program is `sleep`."""
    return [pid for pid in processes_of(uid) if name_of(pid) == "sleep"]
