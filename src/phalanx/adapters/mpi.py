"""MPI programs inside of a job: each member becomes slots of one `mpirun`, which needs no ssh.

    phalanx run --gang 8 -- python -m phalanx.adapters.mpi ./solver input.dat

Rank 0 runs `mpirun` once all members are there, and the others wait for its end. What mpirun starts
on other nodes is started there in the place of a member, with that member's devices, by
`phalanx.adapters.mpi_agent`. Open MPI and MPICH (Hydra) are known.
"""

from __future__ import annotations

import argparse
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

HOSTS = "PHALANX_MPI_HOSTS"
"""A variable: the file of hosts, each with the member that stands for it."""
PATIENCE_S = 300.0
"""How long members wait for each other."""
LOOK_EVERY_S = 0.1
_LINE_BYTES = 4096
_WELL = b"done\n"


class Slot(NamedTuple):
    """A member: its node, that node's address, and the member's name in its job."""

    node: str
    address: str
    member: str


class Plan(NamedTuple):
    """What one `mpirun` is told: its slots by host, and the member that stands for each host."""

    slots: dict[str, int]
    members: dict[str, str]


def plan(found: Sequence[Slot]) -> Plan:
    """The hosts of these members, in the order of ranks. A host is called by its node's address,
    or by its node's id where several nodes share one address."""
    nodes: dict[str, set[str]] = {}
    for slot in found:
        nodes.setdefault(slot.address, set()).add(slot.node)
    slots: dict[str, int] = {}
    members: dict[str, str] = {}
    for slot in found:
        host = slot.address if len(nodes[slot.address]) == 1 else slot.node
        slots[host] = slots.get(host, 0) + 1
        members.setdefault(host, slot.member)
    return Plan(slots, members)


def command(version: str, mpirun: str, hosts: Path, size: int) -> tuple[list[str], str]:
    """(The words before the program, the form of a line of the file of hosts) of an MPI that calls
    itself so. Raises ValueError for one that is not known."""
    if "Open MPI" in version or "open-mpi" in version.lower():
        return [mpirun, "--hostfile", str(hosts), "-np", str(size)], "{host} slots={slots}\n"
    if "HYDRA" in version.upper() or "MPICH" in version.upper():
        # Each host's processes get the variables of its own member: its devices above all.
        return [mpirun, "-genvnone", "-f", str(hosts), "-n", str(size)], "{host}:{slots}\n"
    said = version.strip().splitlines()[:1]
    raise ValueError(f"{mpirun} is neither Open MPI nor MPICH: it says {said}")


def agent_variables(agent: str) -> dict[str, str]:
    """What has both MPIs start their processes by this program instead of ssh. Open MPI's daemons
    stay its children: those that leave it would end with it."""
    return {
        "OMPI_MCA_orte_leave_session_attached": "1",
        "PRTE_MCA_prte_leave_session_attached": "1",
        "OMPI_MCA_plm_rsh_agent": agent,
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "PRTE_MCA_plm_ssh_agent": agent,
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXEC": agent,
    }


def _own_slot(env: Mapping[str, str]) -> Slot:
    member = f"{env['PHALANX_TASK']}-{env['PHALANX_TASK_INDEX']}"
    return Slot(env["PHALANX_NODE"], env["PHALANX_NODE_ADDRESS"], member)


def _lead(program: Sequence[str], mpirun: str, env: Mapping[str, str]) -> int:
    size = int(env["WORLD_SIZE"])
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("", int(env["MASTER_PORT"]))))
        server.settimeout(PATIENCE_S)
        slots = {0: _own_slot(env)}
        others = []
        while len(slots) < size:
            connection, _ = server.accept()
            stack.enter_context(connection)
            with connection.makefile("rb") as lines:
                rank, *slot = lines.readline(_LINE_BYTES).decode().split()
            slots[int(rank)] = Slot(*slot)
            others.append(connection)
        code = _mpirun(program, mpirun, plan([slots[rank] for rank in sorted(slots)]), size)
        for connection in others:
            connection.sendall(_WELL)
    return code


def _mpirun(program: Sequence[str], mpirun: str, chosen: Plan, size: int) -> int:
    version = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=False)
    with tempfile.TemporaryDirectory(prefix="phalanx-mpi-") as directory:
        hosts, names, agent = (Path(directory, name) for name in ("hosts", "members", "agent"))
        words, form = command(version.stdout, mpirun, hosts, size)
        hosts.write_text("".join(form.format(host=h, slots=n) for h, n in chosen.slots.items()))
        names.write_text("".join(f"{host} {name}\n" for host, name in chosen.members.items()))
        start = shlex.join([sys.executable, "-m", "phalanx.adapters.mpi_agent"])
        agent.write_text(f'#!/bin/sh\nexec {start} "$@"\n')
        agent.chmod(0o700)
        env = {**os.environ, **agent_variables(str(agent)), HOSTS: str(names)}
        return subprocess.run([*words, *program], env=env, check=False).returncode


def _wait_for_end(env: Mapping[str, str]) -> int:
    """Until rank 0 is done; 1 where it ended without a word."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            there = socket.create_connection((env["MASTER_ADDR"], int(env["MASTER_PORT"])))
            break
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(LOOK_EVERY_S)
    with there:
        there.sendall(" ".join((env["RANK"], *_own_slot(env))).encode() + b"\n")
        return 0 if there.recv(len(_WELL)) == _WELL else 1


def main(arguments: Sequence[str]) -> int:
    """The exit code of mpirun at rank 0, else 0."""
    parser = argparse.ArgumentParser(prog="python -m phalanx.adapters.mpi")
    parser.add_argument("--mpirun", default="mpirun", help="such as mpirun.mpich")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="of MPI, with its arguments")
    chosen = parser.parse_args(arguments)
    if not chosen.program or "RANK" not in os.environ or "PHALANX_JOB" not in os.environ:
        parser.error(
            "it runs a program inside of a job: "
            "phalanx run --gang 4 -- python -m phalanx.adapters.mpi PROGRAM"
        )
    if os.environ["RANK"] != "0":
        return _wait_for_end(os.environ)
    return _lead(chosen.program, chosen.mpirun, os.environ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
