"""MPI programs inside a job: the members become the slots of one `mpirun`, which needs no ssh.

    phalanx run --gang 8 -- python -m phalanx.adapters.mpi ./solver input.dat

Rank 0 runs `mpirun` once all members have reported to rank 0. The other members wait for the end of
`mpirun`. `phalanx.adapters.mpi_agent` starts mpirun's processes on other nodes. These processes run
inside a member on the node, with the member's devices. Open MPI and MPICH (Hydra) are supported.
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
"""The environment variable with the path of a file that names the member for each host."""
PATIENCE_S = 300.0
"""Seconds for which the members wait for each other at the start."""
LOOK_EVERY_S = 0.1
_LINE_BYTES = 4096
_WELL = b"done\n"


class Slot(NamedTuple):
    """A member as a slot of MPI: its node, the node's address, and the member's name in the job."""

    node: str
    address: str
    member: str


class Plan(NamedTuple):
    """The plan of one `mpirun`: the number of slots of each host, and the member in which each
    host's processes run.
    """

    slots: dict[str, int]
    members: dict[str, str]


def plan(found: Sequence[Slot]) -> Plan:
    """Return the plan for these members, with hosts in the order of ranks. A host's name is its
    node's address, or its node's id if several nodes share an address.
    """
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
    """Return the words of the `mpirun` command that precede the program, and the format of a line
    of the host file. `hosts` is the path of that file, and `version` the text that `mpirun
    --version` prints. Raises ValueError for an unknown MPI.
    """
    if "Open MPI" in version or "open-mpi" in version.lower():
        return [mpirun, "--hostfile", str(hosts), "-np", str(size)], "{host} slots={slots}\n"
    if "HYDRA" in version.upper() or "MPICH" in version.upper():
        # Each host's processes get the variables of their own member, above all its devices.
        return [mpirun, "-genvnone", "-f", str(hosts), "-n", str(size)], "{host}:{slots}\n"
    said = version.strip().splitlines()[:1]
    raise ValueError(f"{mpirun} is neither Open MPI nor MPICH: it reports {said}")


def agent_variables(agent: str) -> dict[str, str]:
    """Return the environment variables that make Open MPI and MPICH start processes with the
    program `agent` instead of ssh. They also keep Open MPI's daemons as children of the agent.
    Otherwise a daemon would detach itself, and then be ended when the agent ends.
    """
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
    """Wait until rank 0 has ended. Return 0, or 1 if the connection to rank 0 ended without a
    message.
    """
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
    """Run mpirun at rank 0 and return its exit code; at other ranks, wait for its end."""
    parser = argparse.ArgumentParser(prog="python -m phalanx.adapters.mpi")
    parser.add_argument(
        "--mpirun", default="mpirun", help="the mpirun to use, such as mpirun.mpich"
    )
    parser.add_argument(
        "program", nargs=argparse.REMAINDER, help="the MPI program, with its arguments"
    )
    chosen = parser.parse_args(arguments)
    if not chosen.program or "RANK" not in os.environ or "PHALANX_JOB" not in os.environ:
        parser.error(
            "run this inside a job, such as: "
            "phalanx run --gang 4 -- python -m phalanx.adapters.mpi PROGRAM"
        )
    if os.environ["RANK"] != "0":
        return _wait_for_end(os.environ)
    return _lead(chosen.program, chosen.mpirun, os.environ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
