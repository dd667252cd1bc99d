"""The commands `phalanx up` and `phalanx down`: a cluster on many machines, over ssh."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from phalanx.cli.options import Argument, Option
from phalanx.cli.reach import FAILED, USAGE, fail
from phalanx.cli.table import report, say

if TYPE_CHECKING:
    from phalanx.cli.rollout.cluster_file import Cluster
    from phalanx.cli.rollout.execution import Rollout
    from phalanx.cli.rollout.plan import Plan

File = Annotated[
    Path, Argument(help="TOML file that lists the cluster's machines; see docs/howto/machines.md.")
]
Names = Annotated[
    list[str] | None,
    Argument(help="Names of the machines in FILE to work on. Default: all machines in FILE."),
]
DryRun = Annotated[
    bool, Option("--dry-run", help="Look at the machines, print the steps, and change nothing.")
]


def up(
    file: File,
    names: Names = None,
    upgrade: Annotated[
        bool,
        Option(
            "--upgrade",
            help="Replace Phalanx on one machine after another while jobs run, beginning with the "
            "head's machine.",
        ),
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Install and start a cluster, over ssh, on the machines that FILE lists.

    Machines that already are as FILE describes them are not changed.

    Exit 1: something failed on a machine. Exit 2: FILE has faults.
    """
    from phalanx.cli.rollout.plan import Do, Task, plan_up

    cluster = _read(file)
    wanted = _mark_of_software(cluster)
    mine = _chosen(cluster, names, file)
    rollout = _rollout(cluster, wanted)
    task = Task(wanted, frozenset(mine), upgrade)
    seen = [name for name in cluster.machines if name in mine or name in cluster.heads]
    found = rollout.look(seen)
    plan = plan_up(cluster, found, task)
    _refuse(plan, rollout)
    if dry_run:
        _show(plan, rollout, cluster)
        return
    is_whole = True
    if plan.stages and plan.stages[0][0].do is Do.INSTALL:
        is_whole = rollout.carry_out(plan._replace(stages=plan.stages[:1]), stops=upgrade)
        if is_whole:  # the plan depends on the version of the protocol that was installed
            found = rollout.look(seen)
            plan = plan_up(cluster, found, task)
            _refuse(plan, rollout)
    is_whole = is_whole and rollout.carry_out(plan, stops=upgrade)
    missing = _missing(rollout, cluster, mine) if is_whole else []
    _tell(rollout, cluster, mine)
    for note in plan.notes:
        report(note)
    if not is_whole:
        command = "phalanx up --upgrade" if upgrade else "phalanx up"
        fail(f"The later steps were not taken. Remove the cause, and run `{command}` again.")
    if missing:
        fail(f"The head does not know these nodes as alive: {', '.join(missing)}.")
    if rollout.failures:
        fail(_count_failed(rollout))
    report(f"The cluster at {', '.join(cluster.addresses)} is as the file says.")


def down(file: File, names: Names = None, dry_run: DryRun = False) -> None:
    """End the cluster's daemons, over ssh, on the machines that FILE lists.

    Jobs and queues stay in the head's store, and the software and the token stay
    on the machines.

    Exit 1: something failed on a machine. Exit 2: FILE has faults.
    """
    from phalanx.cli.rollout.plan import plan_down

    cluster = _read(file)
    mine = _chosen(cluster, names, file)
    rollout = _rollout(cluster, "")
    plan = plan_down(cluster, rollout.look(mine), mine)
    _refuse(plan, rollout)
    if dry_run:
        _show(plan, rollout, cluster)
        return
    rollout.carry_out(plan, stops=False)
    _tell(rollout, cluster, mine)
    if rollout.failures:
        fail(_count_failed(rollout))


def _read(file: Path) -> Cluster:
    from phalanx.cli.rollout.cluster_file import FileFaultsError, read_cluster

    try:
        cluster = read_cluster(file.read_text(encoding="utf-8"), str(file))
    except OSError as error:
        fail(f"{file}: {error.strerror}", USAGE)
    except UnicodeDecodeError:
        fail(f"{file} is not UTF-8.", USAGE)
    except FileFaultsError as error:
        fail(str(error), USAGE)
    wheel = cluster.install.wheel
    if not wheel:
        return cluster
    package = str(file.absolute().parent / Path(wheel).expanduser()) + cluster.install.extras
    return cluster._replace(install=cluster.install._replace(package=package))


def _mark_of_software(cluster: Cluster) -> str:
    from phalanx.cli.rollout.plan import mark

    install = cluster.install
    if not install.package:
        return ""
    try:
        content = Path(install.wheel).read_bytes() if install.wheel else install.package
    except OSError as error:
        fail(f"{install.wheel}: {error.strerror}", USAGE)
    return mark(content, install.extras, install.python, *install.pip)


def _chosen(cluster: Cluster, names: list[str] | None, file: Path) -> list[str]:
    from phalanx.model.nearest import nearest

    for name in names or []:
        if name not in cluster.machines:
            near = nearest(name, cluster.machines) or "."
            fail(f"{file} has no machine {name!r}{near}", USAGE)
    return [name for name in cluster.machines if not names or name in names]


def _rollout(cluster: Cluster, wanted: str) -> Rollout:
    from phalanx.cli.rollout.execution import Rollout

    return Rollout(cluster, wanted, lambda text: say(f"{text} …", err=True))


def _refuse(plan: Plan, rollout: Rollout) -> None:
    """End the command if the plan is refused."""
    if plan.refusals:
        _tell_failures(rollout)
        fail("\n".join(plan.refusals))


def _show(plan: Plan, rollout: Rollout, cluster: Cluster) -> None:
    from phalanx.cli.rollout.words import plan_lines

    for line in plan_lines(plan, cluster):
        report(line)
    if not plan.stages:
        report("There is nothing to do.")
    for note in plan.notes:
        report(note)
    _tell_failures(rollout)
    report("Nothing was changed.")
    if rollout.failures:
        fail(_count_failed(rollout))


def _tell(rollout: Rollout, cluster: Cluster, names: list[str]) -> None:
    """Print one line for each machine: what was done, or what failed."""
    from phalanx.cli.rollout.words import done_words

    for name in names:
        if name not in rollout.failures:
            report(f"{name}: {done_words(rollout.done.get(name, []), cluster)}")
    _tell_failures(rollout)


def _tell_failures(rollout: Rollout) -> None:
    for name, reason in rollout.failures.items():
        first, *others = reason.splitlines() or [""]
        report("\n".join([f"{name}: FAILED: {first}", *(f"    {line}" for line in others)]))


def _missing(rollout: Rollout, cluster: Cluster, names: list[str]) -> list[str]:
    """Return the nodes that should have joined the cluster and have not."""
    from phalanx.cli.rollout.connection import MachineError

    nodes = [
        name for name in names if cluster.machines[name].has_node and name not in rollout.failures
    ]
    try:
        return rollout.missing(nodes)
    except MachineError as error:
        fail(f"The head gives no answer: {error}", FAILED)


def _count_failed(rollout: Rollout) -> str:
    count = len(rollout.failures)
    return "1 machine failed." if count == 1 else f"{count} machines failed."
