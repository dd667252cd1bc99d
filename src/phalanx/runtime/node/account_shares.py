"""The shares of CPU time of the accounts whose work runs on a node.

phalanx-launch gives each account a control group, and the node says how much CPU time the group
gets: by a weight, and by the CPUs on which its processes may run. So an account cannot take CPU
time from others by starting many processes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence

from phalanx.model.command_groups import CONTROLLERS, DELEGATED, NONE, way_with
from phalanx.runtime.os.command_groups import cpu_weight

GROUPS_FILE = "groups"
"""The file beside the socket of phalanx-launch that names the control group below which accounts
have theirs.
"""
_EARLIER = b""
"""The name under which the commands of the node's earlier process are counted together."""
_ROUNDING = 1e-6


def groups_of_accounts(launch: str) -> str:
    """Return the directory of the control group that contains the control groups of accounts; "" if
    there is none. `launch`: the socket of phalanx-launch.
    """
    try:
        with open(os.path.join(os.path.dirname(launch), GROUPS_FILE), encoding="utf-8") as file:
            return file.read()
    except OSError:  # it has not begun yet
        return ""


def way_of_accounts(launch: str) -> str:
    """Return how the processes of each command are kept together where accounts have groups of
    their own (see `model.command_groups`).
    """
    groups = groups_of_accounts(launch)
    try:
        with open(f"{groups}/cgroup.subtree_control", encoding="ascii") as file:
            held = file.read().split()
    except OSError:
        return NONE
    return way_with(DELEGATED, [one for one in CONTROLLERS if one in held])


def shared_out(
    cpus: Sequence[int], held: Mapping[int, float], own: Mapping[int, Sequence[int]]
) -> dict[int, list[int]]:
    """Return the CPUs that are reserved for each account: as many as the whole CPUs in its work.

    `cpus`: the CPUs of the machine. `held`: the number of CPUs that the work of each account has.
    `own`: the CPUs that are reserved for each account now. An account keeps these, unless its work
    has fewer CPUs by now.
    """
    wanted = {uid: int(amount + _ROUNDING) for uid, amount in held.items()}
    found = {uid: list(own.get(uid, ()))[:count] for uid, count in wanted.items()}
    taken = {cpu for mine in found.values() for cpu in mine}
    free = [cpu for cpu in cpus if cpu not in taken]
    for uid, count in wanted.items():
        missing = count - len(found[uid])
        found[uid] += free[:missing]
        free = free[missing:]
    return found


class AccountShares:
    """Sets the shares of accounts, from the CPUs of their commands that have not ended.

    As many CPUs as the commands of an account have are reserved for the account. It may also use
    each CPU that is not reserved for any account.
    """

    def __init__(self, launch: str, cpus: Sequence[int]) -> None:
        """`launch`: the socket of phalanx-launch. `cpus`: the CPUs of the machine; none if the node
        offers more CPUs than the machine has, because then CPUs cannot be reserved for accounts.
        """
        self._launch = launch
        self._cpus = cpus
        self._commands: dict[int, dict[bytes, float]] = {}
        """The number of CPUs of each command, by account."""
        self._earlier: dict[int, set[bytes]] = {}
        self._own: dict[int, list[int]] = {}

    def begins(self, uid: int, process: bytes, cpus: float) -> None:
        """Add a command that begins. `cpus`: the number of CPUs that it has."""
        self._commands.setdefault(uid, {})[process] = cpus
        self.set()

    def ended(self, uid: int, process: bytes) -> None:
        """Forget a command that has ended."""
        earlier = self._earlier.get(uid, set())
        earlier.discard(process)
        held = self._commands.get(uid, {})
        held.pop(process, None)
        if not earlier:
            held.pop(_EARLIER, None)
        self.set()

    def take_over(self, uid: int, processes: set[bytes]) -> None:
        """Add the commands that the node's earlier process has begun for an account. That process
        has set the weight of the account's group, which shows how many CPUs all these commands
        have.
        """
        with contextlib.suppress(OSError, ValueError), open(self._path(uid, "cpu.weight")) as file:
            self._commands[uid] = {_EARLIER: int(file.read()) / cpu_weight(1.0)}
            self._earlier[uid] = processes

    def forget(self, uid: int) -> None:
        """Forget an account that has no work here any more."""
        self._commands.pop(uid, None)
        self._earlier.pop(uid, None)
        self.set()

    def set(self) -> None:
        """Write the shares of all accounts to their control groups, where the kernel has such
        groups.
        """
        held = {uid: sum(commands.values()) for uid, commands in self._commands.items()}
        self._own = shared_out(self._cpus, held, self._own)
        taken = {cpu for mine in self._own.values() for cpu in mine}
        free = [cpu for cpu in self._cpus if cpu not in taken]
        for uid, cpus in held.items():
            if cpus:
                self._write(uid, "cpu.weight", str(cpu_weight(cpus)))
            if usable := sorted({*self._own[uid], *free}):
                self._write(uid, "cpuset.cpus", ",".join(map(str, usable)))

    def _write(self, uid: int, name: str, text: str) -> None:
        with contextlib.suppress(OSError), open(self._path(uid, name), "w") as file:
            file.write(text)

    def _path(self, uid: int, name: str) -> str:
        return f"{groups_of_accounts(self._launch)}/account-{uid}/{name}"
