"""The commands `phalanx install` and `phalanx uninstall`: services of systemd."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

from phalanx.cli.options import Option
from phalanx.cli.reach import FAILED, NOT_ALLOWED, USAGE, fail
from phalanx.cli.table import report, say

if TYPE_CHECKING:
    from phalanx.cli.installation.plan import Machine, Plan

Apply = Annotated[
    bool, Option("--apply", help="Carry out the steps, instead of only listing them.")
]
Root = Annotated[
    str,
    Option(
        metavar="DIRECTORY",
        help="Write or remove files below this directory instead of below /, for example to build "
        "an image or a package. No command is run.",
    ),
]


def install(
    system: Annotated[
        bool,
        Option(
            "--system",
            help="Install services for the whole machine, which run under the account "
            "phalanx. --apply then needs root's rights. Give either --system or --user.",
        ),
    ] = False,
    user: Annotated[
        bool,
        Option("--user", help="Install services for your own account, without root's rights."),
    ] = False,
    address: Annotated[
        str,
        Option(
            help="Address of the head that this machine's node joins (HOST:PORT). Default: a head "
            "is installed on this machine, too."
        ),
    ] = "",
    host: Annotated[
        str,
        Option(
            help="IP address at which other machines reach this machine, such as 10.0.0.1. No "
            "other machine can reach the default address. Default: 127.0.0.1."
        ),
    ] = "",
    dashboard: Annotated[
        bool, Option("--dashboard", help="Also serve the web page of the cluster.")
    ] = False,
    launch: Annotated[
        bool,
        Option(
            "--launch",
            help="With --system: let the node run each job under the account of its "
            "submitter, as `phalanx start --system` does. This installs the program "
            "phalanx-launch with root's rights.",
        ),
    ] = False,
    apply: Apply = False,
    root: Root = "",
) -> None:
    """List the steps that install Phalanx's systemd services, or carry them out (--apply).

    Exit 1: a step failed. Exit 4: --system --apply without root's rights.
    """
    from phalanx.cli.configuration.values import check_host
    from phalanx.cli.installation.plan import Wanted
    from phalanx.cli.installation.plan import install as plan_of
    from phalanx.runtime.daemons.local import split_address

    _check(system, user, apply, root)
    try:
        if host:
            check_host(host)
        if address:
            split_address(address)
    except ValueError as error:
        fail(str(error), USAGE)
    if launch and not system:
        fail("--launch is only for --system: only root can run jobs as other people.", USAGE)
    machine = _machine()
    if system and (blocked := _closed_to_others(machine.python)):
        fail(
            f"The account phalanx cannot reach {machine.python}: {blocked} is closed to others. "
            "Install Phalanx in a place such as /opt/phalanx.",
            FAILED,
        )
    program = _launch_program() if launch else ""
    plan = plan_of(Wanted(system, address, host, dashboard, program), machine)
    if launch and not root and (changeable := _changeable(machine.python)):
        if apply:
            fail(changeable, FAILED)
        plan.notes.append(changeable)
    _carry_out(plan, apply, root)


def uninstall(
    system: Annotated[
        bool,
        Option(
            "--system",
            help="Remove the services of the whole machine. --apply then needs root's rights. "
            "Give either --system or --user.",
        ),
    ] = False,
    user: Annotated[
        bool,
        Option("--user", help="Remove the services of your own account, without root's rights."),
    ] = False,
    apply: Apply = False,
    root: Root = "",
) -> None:
    """List the steps that remove Phalanx's systemd services, or carry them out (--apply).

    The configuration, the store and the token stay.
    """
    from phalanx.cli.installation.plan import uninstall as plan_of
    from phalanx.cli.installation.plan import units_in

    _check(system, user, apply, root)
    machine = _machine()
    present = units_in(root.rstrip("/"), system, machine)
    if not present:
        say("No service of Phalanx is installed.")
        return
    _carry_out(plan_of(system, machine, present), apply, root)


def _check(system: bool, user: bool, apply: bool, root: str) -> None:
    if system == user:
        fail("Give either --system, for the machine, or --user, for this user.", USAGE)
    if system and apply and not root and os.geteuid() != 0:
        fail("--system --apply needs root's rights: run it with sudo.", NOT_ALLOWED)


def _carry_out(plan: Plan, apply: bool, root: str) -> None:
    root = os.path.abspath(root).rstrip("/") if root else ""
    for number, step in enumerate(plan.steps, 1):
        report(f"{number}. {step.description(root)}")
        if apply:
            try:
                step.take(root)
            except (OSError, LookupError, RuntimeError) as error:
                fail(f"Step {number} failed, and the later ones were not taken: {error}")
    for note in plan.notes:
        report(f"\n{note}")
    if not apply:
        report("\nNothing was changed: --apply takes these steps.")


def _launch_program() -> str:
    from importlib import resources

    program = resources.files("phalanx.runtime.launch") / "program.py"
    return program.read_text(encoding="utf-8")


def _changeable(python: str) -> str:
    """Return why phalanx-launch would refuse this Python; empty if it would accept it."""
    from subprocess import SubprocessError

    from phalanx.runtime.launch import program

    try:
        program.check_python(python, set())
    except (OSError, ValueError, SubprocessError) as error:
        return (
            f"phalanx-launch refuses {python}: {error}. Install Python and Phalanx as root, for "
            "example below /opt/phalanx."
        )
    return ""


def _machine() -> Machine:
    import grp
    import pwd

    from phalanx.cli.installation.plan import Machine
    from phalanx.cli.installation.units import ACCOUNT

    me = pwd.getpwuid(os.getuid()).pw_name
    return Machine(
        python=sys.executable,
        user=me,
        home=os.path.expanduser("~"),
        has_account=any(one.pw_name == ACCOUNT for one in pwd.getpwall()),
        groups=frozenset(one.gr_name for one in grp.getgrall()),
        lingers=os.path.exists(f"/var/lib/systemd/linger/{me}"),
    )


def _closed_to_others(path: str) -> str:
    """Return a folder above this file that other accounts cannot enter; empty if they can enter all
    of these folders.
    """
    folder = os.path.dirname(os.path.abspath(path))
    while True:
        if not os.stat(folder).st_mode & 0o001:
            return folder
        if folder == "/":
            return ""
        folder = os.path.dirname(folder)
