"""Pure functions that choose the steps of `phalanx up` and `phalanx down`, from the description of
a cluster and the state of its machines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple

from phalanx.cli.rollout.cluster_file import Cluster

HEAD, STANDBY, NODE = "head", "standby", "node"

_ALL_AT_ONCE = (
    "The new release speaks another version of the protocol, so all machines are upgraded at once, "
    "and work starts again: give no names ({left} left out)."
)


class Running(NamedTuple):
    """A daemon of the account on a machine."""

    kind: str
    """HEAD, STANDBY or NODE. The head that serves is HEAD, also on the standby's machine."""
    name: str
    """The name of a node; empty for other kinds."""
    addresses: frozenset[str]
    """HOST:PORT of the heads of the daemon's cluster."""
    package: str = ""
    """The mark of the software that the daemon runs; empty if `phalanx up` did not start the
    daemon.
    """
    options: str = ""
    """The mark of the options of the daemon's start; empty if `phalanx up` did not start the
    daemon.
    """


class Found(NamedTuple):
    """The state in which `phalanx up` found a machine."""

    package: str = ""
    """The mark of the software to which the link at the place of installation leads; empty if there
    is no such link, or if `phalanx up` did not make it.
    """
    installed: frozenset[str] = frozenset()
    """The marks of all software that is installed there completely."""
    protocols: Mapping[str, int] = {}
    """The protocol versions of the installed software, by the software's marks."""
    token: str = ""
    """The mark of the cluster's token there; empty for no token."""
    own_token: str = ""
    """The mark of the token that `phalanx up` wrote there last."""
    running: tuple[Running, ...] = ()


class Do(Enum):
    """The kinds of steps."""

    INSTALL = "install"
    SEND_TOKEN = "send the token"
    START_HEAD = "start the head"
    START_STANDBY = "start the standby"
    START_NODE = "start the node"
    RESTART_HEAD = "restart the head"
    RESTART_NODE = "restart the node"
    STOP = "stop"


class Step(NamedTuple):
    """One step on one machine."""

    do: Do
    machine: str


class Plan(NamedTuple):
    """Stages to carry out, one after another. The steps of one stage run at the same time, on
    different machines.
    """

    stages: tuple[tuple[Step, ...], ...] = ()
    refusals: tuple[str, ...] = ()
    """Why nothing is done at all."""
    notes: tuple[str, ...] = ()
    """Differences from the file that are not changed."""


class Task(NamedTuple):
    """The request of a person to `phalanx up`."""

    wanted: str
    """The mark of the software that the cluster's file names; empty if the file names none."""
    names: frozenset[str]
    """The names of the machines that the request is for."""
    upgrades: bool = False
    """Whether daemons that run other software are restarted with the wanted software."""


def mark(*parts: str | bytes) -> str:
    """Return a short text that identifies the contents `parts`. Different contents have different
    marks.
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:16]


def of_cluster(cluster: Cluster, found: Found) -> tuple[Running, ...]:
    """Return the daemons on a machine that belong to the cluster."""
    return tuple(one for one in found.running if one.addresses & set(cluster.addresses))


def plan_up(cluster: Cluster, found: Mapping[str, Found], task: Task) -> Plan:
    """Return the plan that brings the machines to the state of the file. `found` has no entry for
    a machine that could not be reached.
    """
    # In the order of the file, so that equal files give equal plans.
    mine = [name for name in cluster.machines if name in found and name in task.names]
    if refusals := _refusals(cluster, found, mine, task):
        return Plan(refusals=refusals)
    differ = {name for name in mine if _differs(cluster, found[name], task)}
    install = _each(Do.INSTALL, [name for name in mine if _lacks(found[name], task)])
    tokens = _each(Do.SEND_TOKEN, _without_token(cluster, found, mine))
    if _changes_protocol(cluster, found, differ, task):
        if left := [name for name in cluster.machines if name not in task.names]:
            return Plan(refusals=(_ALL_AT_ONCE.format(left=", ".join(left)),))
        stages = [install, *_at_once(cluster, found, mine, tokens)]
    else:
        stages = [install, *_one_by_one(cluster, found, mine, tokens, differ)]
    notes = _notes(cluster, found, mine)
    return Plan(tuple(stage for stage in stages if stage), notes=notes)


def _one_by_one(
    cluster: Cluster,
    found: Mapping[str, Found],
    mine: list[str],
    tokens: tuple[Step, ...],
    differ: set[str],
) -> list[tuple[Step, ...]]:
    """Return the stages that start missing daemons, and restart those that run other software,
    while jobs continue. `differ`: the machines on which other software runs.
    """
    serving = _serving(cluster, found)
    begin = [name for name in cluster.heads if name in mine]
    absent = [name for name in begin if not _has(cluster, found[name], HEAD, STANDBY)]
    first = [] if serving else absent[:1]
    changed = [
        name
        for name in begin
        if name not in absent
        and (name in differ or _has_other_options(cluster, name, found[name], HEAD, STANDBY))
    ]
    # A head that only stands by comes first: it runs the new software when it takes over.
    changed.sort(key=lambda name: name == serving)
    nodes = [name for name in mine if cluster.machines[name].has_node]
    present = [name for name in nodes if _has(cluster, found[name], NODE)]
    return [
        _each(Do.START_HEAD, first),
        tokens,
        *((Step(Do.RESTART_HEAD, name),) for name in changed),
        # Only then do new standbys start: they would take over from a head that is started again.
        *((Step(Do.START_STANDBY, name),) for name in absent if name not in first),
        _each(Do.START_NODE, [name for name in nodes if name not in present]),
        *((Step(Do.RESTART_NODE, name),) for name in present if name in differ),
    ]


def plan_down(cluster: Cluster, found: Mapping[str, Found], names: Collection[str]) -> Plan:
    """Return the plan that ends the daemons of these machines: nodes first, the head last."""
    mine = [name for name in cluster.machines if name in found and name in names]
    refusals = [text for name in mine for text in _strangers(cluster, name, found[name])]
    running = [name for name in mine if of_cluster(cluster, found[name])]
    serving = _serving(cluster, found)
    nodes = _each(Do.STOP, [name for name in running if name not in cluster.heads])
    # The standby ends before the head: otherwise it would take over.
    heads = sorted((n for n in running if n in cluster.heads), key=lambda name: name == serving)
    stages = (nodes, *((Step(Do.STOP, name),) for name in heads))
    return Plan(tuple(stage for stage in stages if stage), tuple(refusals))


def head_to_ask(cluster: Cluster, found: Mapping[str, Found]) -> str:
    """Return the machine whose head serves, or else the head's machine of the file."""
    return _serving(cluster, found) or cluster.head


def _refusals(
    cluster: Cluster, found: Mapping[str, Found], mine: list[str], task: Task
) -> tuple[str, ...]:
    heads = [name for name in cluster.heads if name in found]
    if not heads:
        return (f"The head's machine cannot be used: {' and '.join(cluster.heads)}.",)
    said: list[str] = []
    if not _serving(cluster, found) and not set(heads) & set(mine):
        said.append(f"No head runs: give {heads[0]} too, or no name.")
    waiting = []
    for name in mine:
        one = found[name]
        said += _strangers(cluster, name, one)
        said += _foreign_token(cluster, name, found)
        if not task.wanted:
            continue
        if _differs(cluster, one, task) and not task.upgrades:
            waiting.append(name)
        elif task.upgrades and any(not daemon.package for daemon in of_cluster(cluster, one)):
            said.append(
                f"{name}: its daemons were started without `phalanx up`, which cannot replace "
                "their software. Drain the node, run `phalanx stop` there, and `phalanx up` again."
            )
    if waiting:
        said.append(
            f"{', '.join(waiting)}: other software runs there than the file names. `phalanx up "
            "--upgrade` replaces it."
        )
    return tuple(said)


def _strangers(cluster: Cluster, name: str, found: Found) -> list[str]:
    """Return a refusal for each daemon of another cluster."""
    ours = of_cluster(cluster, found)
    return [
        f"{name}: a {one.kind} of the cluster at {', '.join(sorted(one.addresses))} runs there "
        "under this account: end it first, or use another account."
        for one in found.running
        if one not in ours
    ]


def _foreign_token(cluster: Cluster, name: str, found: Mapping[str, Found]) -> list[str]:
    """Return a refusal if the machine has a token that may belong to another cluster."""
    one, source = found[name], _source(cluster, found)
    if name == source or one.token in ("", one.own_token, found[source].token):
        return []
    if of_cluster(cluster, one):  # the token is being rotated
        return []
    return [
        f"{name}: there is a token that `phalanx up` did not write. It may be another cluster's: "
        "move it away, or give token_file in [start]."
    ]


def _source(cluster: Cluster, found: Mapping[str, Found]) -> str:
    """Return the machine whose token is copied to all others."""
    return _serving(cluster, found) or next(name for name in cluster.heads if name in found)


def _serving(cluster: Cluster, found: Mapping[str, Found]) -> str:
    """Return the machine whose head serves; empty if no head serves."""
    for name in cluster.heads:
        if name in found and _has(cluster, found[name], HEAD):
            return name
    return ""


def _has(cluster: Cluster, found: Found, *kinds: str) -> bool:
    return any(one.kind in kinds for one in of_cluster(cluster, found))


def _lacks(found: Found, task: Task) -> bool:
    return bool(task.wanted) and task.wanted not in found.installed


def _differs(cluster: Cluster, found: Found, task: Task) -> bool:
    """Whether daemons of the cluster on this machine run other software than the wanted one.

    Daemons whose software is unknown do not count. A link that leads to other software counts, too:
    such a link remains when an upgrade has failed after it changed the link and before it restarted
    the daemon. The daemon may then have read modules of both releases, and started workers of both.
    """
    if not task.wanted:
        return False
    known = {one.package for one in of_cluster(cluster, found) if one.package}
    return bool(known) and not known | {found.package or task.wanted} <= {task.wanted}


def _has_other_options(cluster: Cluster, name: str, found: Found, *kinds: str) -> bool:
    return any(
        one.options not in ("", options_mark(cluster, name, one.kind))
        for one in of_cluster(cluster, found)
        if one.kind in kinds
    )


def options_mark(cluster: Cluster, name: str, kind: str) -> str:
    """Return the mark of the options with which a head or a node is started on a machine.

    The addresses of other heads are left out, because a node learns them from its head.
    """
    of_kind = () if kind == NODE else cluster.addresses
    return mark(cluster.options(name), cluster.machines[name].address, *of_kind)


def _without_token(cluster: Cluster, found: Mapping[str, Found], mine: list[str]) -> list[str]:
    """Return the machines that lack the head's token. In a new cluster, these are all machines
    except the one that will make the token.
    """
    source = _source(cluster, found)
    token = found[source].token
    return [name for name in mine if name != source and (not token or found[name].token != token)]


def _changes_protocol(
    cluster: Cluster, found: Mapping[str, Found], differ: set[str], task: Task
) -> bool:
    """Whether the wanted software speaks another version of the protocol than running software. The
    version is known once the software is installed on a machine.
    """
    known = {package: number for one in found.values() for package, number in one.protocols.items()}
    wanted = known.get(task.wanted)
    old = {
        known.get(daemon.package, wanted)
        for name in differ
        for daemon in of_cluster(cluster, found[name])
    }
    return wanted is not None and bool(old - {wanted})


def _at_once(
    cluster: Cluster, found: Mapping[str, Found], mine: list[str], tokens: tuple[Step, ...]
) -> list[tuple[Step, ...]]:
    """Return the stages that end the cluster and start it again, because releases with other
    versions of the protocol refuse each other.
    """
    heads = [name for name in cluster.heads if name in mine]
    return [
        *plan_down(cluster, found, mine).stages,
        _each(Do.START_HEAD, heads[:1]),
        tokens,
        _each(Do.START_STANDBY, heads[1:]),
        _each(Do.START_NODE, [name for name in mine if cluster.machines[name].has_node]),
    ]


def _notes(cluster: Cluster, found: Mapping[str, Found], mine: list[str]) -> tuple[str, ...]:
    said = []
    for name in mine:
        if _has_other_options(cluster, name, found[name], NODE):
            said.append(
                f"{name}: its node runs with other options than the file's. To apply them, end its "
                f"work with `phalanx down FILE {name}`, then run `phalanx up FILE`."
            )
    return tuple(said)


def _each(do: Do, names: list[str]) -> tuple[Step, ...]:
    return tuple(Step(do, name) for name in names)
