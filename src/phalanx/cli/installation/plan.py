"""Pure functions that list the steps to install and to remove the services."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from phalanx.cli.installation.steps import Directory, File, Removal, Run, Step
from phalanx.cli.installation.units import (
    ACCOUNT,
    DASHBOARD,
    HEAD,
    HOME,
    JOBS,
    LAUNCH,
    LAUNCH_KEY,
    LAUNCH_PROGRAM,
    NODE,
    Service,
    jobs_unit,
    launch_unit,
    unit,
    unit_name,
)

_GROUPS_OF_DEVICES = ("video", "render")


class Machine(NamedTuple):
    """The facts that the plan depends on."""

    python: str
    user: str
    home: str
    has_account: bool
    """Whether the account of the services exists."""
    groups: frozenset[str]
    """The names of the machine's Unix groups."""
    lingers: bool
    """Whether the user's services keep running after the last logout (systemd's lingering)."""


class Wanted(NamedTuple):
    """The installation that a person asks for."""

    is_system: bool
    address: str = ""
    """The address of the head to join; empty for a head on this machine."""
    host: str = ""
    """The address at which other machines reach this machine; empty for this machine only."""
    has_dashboard: bool = False
    launch: str = ""
    """The text of the program that runs as root and starts jobs as their submitters; empty: no such
    program is installed.
    """


class Plan(NamedTuple):
    """The steps, and notes for the person who installs the services."""

    steps: list[Step]
    notes: list[str]


def install(wanted: Wanted, machine: Machine) -> Plan:
    """Return the steps that install the services, and start them."""
    service = Service(machine.python, wanted.is_system, is_head_here=not wanted.address)
    parts = [] if wanted.address else [HEAD]
    parts += [NODE, *([DASHBOARD] if wanted.has_dashboard else [])]
    steps: list[Step] = []
    if wanted.is_system:
        if not machine.has_account:
            steps.append(Run(_new_account(machine)))
        steps += [Directory(HOME, 0o700, ACCOUNT), Directory(f"{HOME}/.phalanx", 0o700, ACCOUNT)]
    folder = _folder_of_config(wanted.is_system, machine)
    steps.append(Directory(folder, 0o755 if wanted.is_system else 0o700))
    steps.append(File(f"{folder}/config.toml", 0o644, _config(wanted), keeps=True))
    units = _folder_of_units(wanted.is_system, machine)
    steps.append(Directory(units, 0o755))
    steps += [File(f"{units}/{unit_name(part)}", 0o644, unit(part, service)) for part in parts]
    if wanted.launch:
        parts.append(LAUNCH)
        steps.append(File(LAUNCH_PROGRAM, 0o755, wanted.launch, is_long=True))
        steps.append(File(f"{units}/{unit_name(LAUNCH)}", 0o644, launch_unit(service)))
        steps.append(File(f"{units}/{unit_name(JOBS)}", 0o644, jobs_unit()))
    systemctl = _systemctl(wanted.is_system)
    steps.append(Run((*systemctl, "daemon-reload")))
    steps.append(Run((*systemctl, "enable", "--now", *map(unit_name, parts))))
    return Plan(steps, _notes(wanted, machine))


def uninstall(is_system: bool, machine: Machine, present: Sequence[str]) -> Plan:
    """Return the steps that remove the services. `present`: the units that are installed."""
    units = _folder_of_units(is_system, machine)
    systemctl = _systemctl(is_system)
    steps: list[Step] = []
    if present:
        steps.append(Run((*systemctl, "disable", "--now", *present)))
        steps += [Removal(f"{units}/{name}") for name in present]
        steps.append(Run((*systemctl, "daemon-reload")))
    folder = _folder_of_config(is_system, machine)
    kept = f"{folder}/config.toml stays"
    if is_system:
        kept += (
            f", and so do {HOME} (store, token, logs) and the account {ACCOUNT}. To delete them: "
            f"userdel {ACCOUNT}; rm -r {HOME} /etc/phalanx"
        )
    else:
        kept += ", and so does the store; `phalanx stop --forget` deletes the store"
    return Plan(steps, [f"{kept}."])


def units_in(folder_of_root: str, is_system: bool, machine: Machine) -> list[str]:
    """Return the units of Phalanx that exist below a root directory."""
    folder = f"{folder_of_root}{_folder_of_units(is_system, machine)}"
    names = [unit_name(part) for part in (DASHBOARD, NODE, HEAD, LAUNCH, JOBS)]
    return [name for name in names if os.path.lexists(f"{folder}/{name}")]


def _new_account(machine: Machine) -> tuple[str, ...]:
    groups = ",".join(name for name in _GROUPS_OF_DEVICES if name in machine.groups)
    return (
        *("useradd", "--system", "--user-group", "--home-dir", HOME, "--no-create-home"),
        *("--shell", "/usr/sbin/nologin", *(("--groups", groups) if groups else ()), ACCOUNT),
    )


def _folder_of_config(is_system: bool, machine: Machine) -> str:
    return "/etc/phalanx" if is_system else f"{machine.home}/.phalanx"


def _folder_of_units(is_system: bool, machine: Machine) -> str:
    return "/etc/systemd/system" if is_system else f"{machine.home}/.config/systemd/user"


def _systemctl(is_system: bool) -> tuple[str, ...]:
    return ("systemctl",) if is_system else ("systemctl", "--user")


def _config(wanted: Wanted) -> str:
    lines = ["# `phalanx config show` lists all keys and their values.", "[start]"]
    if wanted.address:
        lines.append(f'address = "{wanted.address}"')
    if wanted.host:
        lines.append(f'host = "{wanted.host}"')
    if wanted.launch:
        lines += ["system = true", *([] if wanted.address else ["shared = true"])]
    if not wanted.host and not wanted.address:
        lines.append('# host = "10.0.0.1"  # lets other machines join')
    return "\n".join([*lines, ""])


def _notes(wanted: Wanted, machine: Machine) -> list[str]:
    home = HOME if wanted.is_system else machine.home
    notes = []
    if wanted.address:
        notes.append(
            f"The node needs the head's token at {home}/.phalanx/token, mode 0600"
            + (f", owned by {ACCOUNT}." if wanted.is_system else ".")
        )
    if wanted.launch:
        key = f"{HOME}/.phalanx/launch/launch.pub of the head's machine"
        notes.append(
            f"Copy {key} to {LAUNCH_KEY} (owner root, mode 0644) once the head has made it, then: "
            f"systemctl start {unit_name(LAUNCH)}; systemctl restart {unit_name(NODE)}."
        )
    if wanted.is_system:
        jobs = "" if wanted.launch else " and all jobs"
        notes.append(
            f"The services{jobs} run as {ACCOUNT}. Commands of this account: "
            f"`sudo -u {ACCOUNT} {machine.python} -m phalanx status`."
        )
    elif not machine.lingers:
        notes.append(
            f"systemd ends the services of {machine.user} at the last logout, and starts them at "
            f"the next login. To keep them always: loginctl enable-linger {machine.user}."
        )
    return notes
