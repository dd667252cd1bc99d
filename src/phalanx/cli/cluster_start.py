"""Starts a head and nodes on this machine, as the options of `phalanx start` say."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from phalanx.cli.configuration import values
from phalanx.cli.node_checks import read_check_rules, read_checks
from phalanx.cli.reach import FAILED, USAGE, fail
from phalanx.cli.start_text import shared_text, what_next
from phalanx.cli.table import report
from phalanx.cli.unfinished import report_unfinished
from phalanx.model.readable import amount, size
from phalanx.runtime.daemons.daemon_files import STANDBY
from phalanx.storage.naming import storage_name

if TYPE_CHECKING:
    from phalanx.runtime.daemons.starting import Daemon, HeadOptions
    from phalanx.runtime.os.node_amounts import NodeAmounts

PORT = 6380
"""The port on which a head listens by default."""


def default_store() -> str:
    """Return the path of a head's default store, which `phalanx stop --forget` deletes."""
    home = os.path.expanduser("~")
    return os.path.join(home, ".phalanx", "store", f"{socket.gethostname()}.db")


def start_head(given: values.StartOptions, parent_fd: int) -> list[Daemon]:
    """Start a head, and a node if one is wanted and none runs yet. `parent_fd`: a pipe; the daemons
    end when its other end is closed. With -1 the daemons stay.
    """
    from phalanx.runtime.daemons import starting
    from phalanx.runtime.daemons.cluster_token import default_path
    from phalanx.runtime.daemons.local import local_daemons
    from phalanx.storage.errors import StorageInUseError
    from phalanx.storage.sqlite import delete, exists

    node = _node_settings(given)
    options = _head_options(given, node)
    if options.settings.memory_limit is not None:
        node["memory_limit"] = options.settings.memory_limit
    of_node = None if given.no_node else _amounts(given, is_first=True)
    running = [one for _, one in local_daemons() if one.kind in ("head", STANDBY)]
    if running:
        fail(
            f"A {running[0].kind} runs here already, at {running[0].address}: `phalanx status` "
            "shows it, `phalanx stop` ends it."
        )
    values.check_standby(given.standby, given.store)
    is_again = not given.store and exists(default_store())
    try:
        started = starting.start_head(options, parent_fd)
    except BaseException:
        if not given.store and not is_again:
            with contextlib.suppress(StorageInUseError):
                delete(default_store())  # else the next head would continue an empty store
        raise
    where, is_standby = started.announcement.address, started.announcement.kind == STANDBY
    _report_head(where, is_standby, options)
    if is_again:
        report("It continues with the state of the previous head: queues, jobs, names, groups.")
        report_unfinished("`phalanx jobs` shows more.")
    here = [one for _, one in local_daemons(where) if one.kind == "node"]
    daemons = [started]
    if here:
        report(f"Node {here[0].name} already runs here, and joins it again.")
    elif of_node is not None:
        if node["launch"]:
            node["shared_dir"] = os.path.dirname(started.announcement.shared)
        heads = (*options.standbys, where) if is_standby else (where, *options.standbys)
        try:
            daemons.append(_start_node(heads, node, of_node, parent_fd))
        except BaseException:
            started.stop()
            raise
    if not is_standby:
        report(what_next(where, node["token_file"] or default_path(), node["insecure"]))
    if note := _login_note():
        report(note)
    if started.announcement.shared:
        report(shared_text(started.announcement.shared, given.group, options.launch_keys))
    return daemons


def _login_note() -> str:
    """Return a sentence that says that commands here use a login instead of the cluster on this
    machine; "" if they use this cluster.
    """
    from phalanx.errors import AuthenticationError
    from phalanx.runtime.daemons import logins

    with contextlib.suppress(AuthenticationError):
        if (login := logins.chosen(None)) is not None:
            return (
                f"Commands without --address ask {login.address}, the current login: --address "
                f"local asks the cluster here, and phalanx logout ends the login."
            )
    return ""


def _report_head(where: str, is_standby: bool, options: HeadOptions) -> None:
    store = storage_name(options.store)
    if not is_standby:
        report(f"Head at {where}; its store is {store}.")
        return
    from phalanx.storage.lease import LEASE_S

    report(
        f"A standby waits at {where}, because another head holds the store {store}. The standby "
        f"takes over {LEASE_S:g} s after that head has stopped writing."
    )


def _head_options(given: values.StartOptions, node: dict[str, Any]) -> HeadOptions:
    from phalanx.runtime.daemons.local import local_daemons, numeric_address
    from phalanx.runtime.daemons.starting import HeadOptions
    from phalanx.storage.opening import audit_path, history_path

    port, directory = PORT if given.port is None else given.port, os.path.dirname(default_store())
    addresses = tuple(_in_full(one) for one in given.store or [default_store()])
    known = {one.cluster for _, one in local_daemons(f"{node['host']}:{port}")} - {""}
    return HeadOptions(
        host=node["host"],
        port=port,
        token_file=node["token_file"],
        insecure=node["insecure"],
        store=addresses,
        marks=directory,
        cluster=min(known, default=""),
        accept_loss=given.accept_loss,
        history=history_path(addresses[0], directory),
        history_limits=values.read_history(given.history),
        audit=audit_path(addresses[0], directory),
        limits=values.read_limits(given.limit),
        placement=values.read_placement(given.placement),
        settings=values.read_settings(given.system_config),
        is_shared=given.shared,
        group=given.group,
        launch_keys=_launch_keys() if node["launch"] else "",
        standbys=tuple(map(numeric_address, given.standby)),
    )


def join(given: values.StartOptions, parent_fd: int) -> list[Daemon]:
    """Start a node that joins a head. `parent_fd` is as in `start_head`."""
    from phalanx.runtime.daemons.local import numeric_addresses, split_address

    assert given.address is not None
    node = _node_settings(given)
    heads = (_head_here(),) if given.address == "auto" else numeric_addresses(given.address)
    far = [one for one in heads if not ipaddress.ip_address(split_address(one)[0]).is_loopback]
    if far and ipaddress.ip_address(node["host"]).is_loopback:
        fail(
            f"The head at {far[0]} is on another machine, and this node would listen on "
            f"{node['host']}, where the other nodes cannot reach it: give this machine's address "
            "with --host.",
            USAGE,
        )
    of_node = _amounts(given, is_first=False)
    return [_start_node(heads, {**node, "port": given.port or 0}, of_node, parent_fd)]


def _head_here() -> str:
    from phalanx.runtime.daemons.local import local_daemons

    heads = [one.address for _, one in local_daemons() if one.kind == "head"]
    if not heads:
        fail("No head of this user runs on this machine: give a head's HOST:PORT with --address.")
    return heads[-1]


def _start_node(
    heads: tuple[str, ...], node: dict[str, Any], amounts: NodeAmounts, parent_fd: int
) -> Daemon:
    from phalanx.runtime.daemons.starting import NodeOptions, start_node

    started = start_node(
        NodeOptions(
            head=heads[0],
            standbys=heads[1:],
            resources=amounts.resources,
            object_store_bytes=amounts.object_store_bytes,
            topology=amounts.topology,
            machine=amounts.machine,
            **{**node, "labels": {**amounts.labels, **node["labels"]}},
        ),
        parent_fd,
    )
    has = ", ".join(
        f"{name} {size(value) if 'memory' in name else amount(value)}"
        for name, value in amounts.resources.items()
        if not name.startswith("node:")
    )
    joined = started.announcement
    report(f"Node {joined.name} joined the cluster at {joined.address}: {has}.")
    return started


def _node_settings(given: values.StartOptions) -> dict[str, Any]:
    """Return the fields of NodeOptions for these options, except the node's amounts."""
    values.check_host(given.host)
    values.check_node(given)
    return {
        "launch": _launch_socket() if given.system else "",
        "node_name": given.node_name,
        "labels": values.read_labels(given.labels),
        "host": given.host,
        "token_file": os.path.abspath(given.token_file) if given.token_file else "",
        "insecure": given.insecure,
        "ports": given.ports,
        "devices": os.path.abspath(given.devices) if given.devices else "",
        "checks": read_checks(given.check),
        "check_rules": read_check_rules(given.check_every, given.check_limit),
        "spill_threshold": given.spill_threshold,
        "patience_s": given.patience,
    }


def _amounts(given: values.StartOptions, is_first: bool) -> NodeAmounts:
    from phalanx.runtime.os.detection import memory_bytes
    from phalanx.runtime.os.node_amounts import node_amounts

    resources, memory = values.read_resources(given.resources), given.object_store_memory
    values.check_amounts(
        num_cpus=given.num_cpus,
        num_gpus=given.num_gpus,
        resources=resources,
        object_store_memory=memory,
    )
    if memory is not None and memory > (most := memory_bytes()):
        raise ValueError(
            f"--object-store-memory {size(memory)} is more than the memory of this machine, "
            f"{size(most)}."
        )
    return node_amounts(
        given.num_cpus,
        given.num_gpus,
        resources,
        object_store_memory=memory,
        topology=given.topology,
        host=given.host,
        is_first=is_first,
    )


def _in_full(store: str) -> str:
    """Return the address of a store with an absolute path, because the next head may start in
    another directory.
    """
    if store == "memory" or "://" in store:
        return store
    return os.path.abspath(store.removeprefix("sqlite:"))


def _launch_socket() -> str:
    from phalanx.runtime.node.user_forks import LAUNCH

    return os.environ.get("PHALANX_LAUNCH") or LAUNCH


def _launch_keys() -> str:
    return os.path.join(os.path.expanduser("~"), ".phalanx", "launch")


def check_system(is_head: bool, is_shared: bool) -> None:
    """End the command if `--system` cannot be carried out here."""
    if os.getuid() == 0:
        fail(
            "--system is for a node whose account is not root but, for example, phalanx. Root "
            "starts phalanx-launch (docs/howto/people.md).",
            USAGE,
        )
    if is_head and not is_shared:
        fail("--system needs --shared: jobs are to run as the people who share the head.", USAGE)
    if is_head and find_spec("cryptography") is None:
        fail("--system needs the package cryptography: pip install 'phalanx[cluster]'.", FAILED)
