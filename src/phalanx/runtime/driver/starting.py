"""Starts a driver's engine: on a running node of this machine, or on a node that the driver
starts.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from phalanx.errors import RuntimeEnvSetupError
from phalanx.model.system_settings import SystemSettings, read_system_settings
from phalanx.objects import by_value
from phalanx.runtime.daemons import logins
from phalanx.runtime.daemons.daemon_files import OF_PROGRAM, OF_SOCKET, REMOTE, Announcement
from phalanx.runtime.daemons.finding import find_daemons, program_of, programs
from phalanx.runtime.daemons.local import (
    local_daemons,
    local_nodes,
    numeric_addresses,
    split_address,
)
from phalanx.runtime.daemons.starting import PRIVATE_ADDRESS
from phalanx.runtime.driver.own_node import OwnNode, StartOptions
from phalanx.runtime.engine import dialect
from phalanx.runtime.engine.interface import Engine, EngineOptions, Output, check_connecting
from phalanx.runtime.os.node_amounts import node_amounts
from phalanx.runtime.os.session import Session
from phalanx.scheduler.placement.memory_pressure import MEMORY_LIMIT
from phalanx.scheduler.placement.placement_policy import PlacementPolicy

if TYPE_CHECKING:
    from phalanx.runtime.os.connection import Connection

_PROBE_S = 2.0
_MAX_PRESTARTED = 8
_FILES = 65536
_OWN = (
    ' The cluster runs on this machine: `phalanx stop` ends it, and address="local" starts a '
    "runtime of the program's own beside it."
)


def start(options: EngineOptions, output: Output) -> Engine:
    """Return the engine of a driver, as `phalanx.runtime.engine.starting.start` describes."""
    if options.runtime_env:
        # Imported here because most programs have no environment, and this imports the modules that
        # talk to a node.
        from phalanx.runtime.driver.job_settings import with_absolute_paths

        with_absolute_paths(options.runtime_env)  # fail for missing paths before anything starts
    if (head := head_to_visit(options.address, options.more.get("_temp_dir"))) is not None:
        from phalanx.runtime.driver.visiting import visit

        check_connecting(options, _OWN)
        return visit(head, options)
    found = find_node(options.address, options.more.get("_temp_dir"))
    hook = b"" if options.hook is None else _exported(options.hook)
    _allow_files()
    if found is not None:
        check_connecting(options, _OWN)
        return _join(found, _connect(found), None, options, hook, output)
    own = OwnNode(_start_options(options))
    # Imported only now, because a new node starts while this process imports the modules that talk
    # to it.
    from phalanx.runtime.os.connection import Connection

    try:
        return _join(own.session, Connection(own.socket), own, options, hook, output)
    except BaseException:
        own.kill()
        raise


def _join(
    session: Session,
    node: Connection,
    own: OwnNode | None,
    options: EngineOptions,
    hook: bytes,
    output: Output,
) -> Engine:
    from phalanx.runtime.driver.engine import RuntimeEngine
    from phalanx.runtime.driver.introduction import JobOptions

    job = JobOptions(
        namespace=options.namespace or str(uuid.uuid4()),
        log_to_driver=options.log_to_driver,
        hook=hook,
        queue=options.queue,
        priority=options.priority,
    )
    return RuntimeEngine.join(session, node, own, job, output)


def _connect(session: Session) -> Connection:
    from phalanx.runtime.os.connection import connect

    try:
        return connect(session.socket_of(b"node"))
    except OSError as error:
        raise ConnectionError(
            f"The node whose session is {session.directory} cannot be reached: {error}."
        ) from None


def _start_options(options: EngineOptions) -> StartOptions:
    settings = system_settings(options.more.get("_system_config"))
    resources = {**(options.resources or {}), **_overrides("resources")}
    here = node_amounts(
        resources.pop("CPU", options.num_cpus),
        resources.pop("GPU", options.num_gpus),
        resources,
        resources.pop("object_store_memory", options.object_store_memory),
        memory=resources.pop("memory", options.more.get("_memory")),
        topology=options.topology,
        is_first=True,
    )
    own_labels = here.labels
    if (spoken := dialect.current()) is not None:
        left_out = spoken.left_out_labels
        own_labels = {k: v for k, v in own_labels.items() if not k.startswith(left_out)}
    return StartOptions(
        resources=here.resources,
        labels={**own_labels, **(options.labels or {}), **_overrides("labels")},
        object_store_bytes=here.object_store_bytes,
        prestart=min(int(here.resources.get("CPU", 0)), _MAX_PRESTARTED),
        temp_dir=options.more.get("_temp_dir"),
        topology=here.topology,
        placement=options.placement or PlacementPolicy(),
        settings=settings,
        memory_limit=MEMORY_LIMIT if settings.memory_limit is None else settings.memory_limit,
        preload=options.preload,
        variables=_settings_of_libraries(options.runtime_env) if options.preload else {},
    )


def _settings_of_libraries(runtime_env: dict[str, Any] | None) -> dict[str, str]:
    """Return the environment variables that the workers need for the libraries of the program's
    dialect. These libraries read the variables when they are imported.

    The node imports these libraries once for all workers.
    """
    spoken = dialect.current()
    given = (runtime_env or {}).get("env_vars") or {}
    return {} if spoken is None else spoken.settings_of(given)


def system_settings(given: dict[str, Any] | None) -> SystemSettings:
    """Return the system settings of a new cluster. Under a dialect, they include those of the
    environment.

    Raises ValueError.
    """
    spoken = dialect.current()
    return read_system_settings(given, None if spoken is None else spoken.settings())


def _overrides(what: str) -> dict[str, Any]:
    """Return the resources or the labels that the dialect sets. They replace the values that the
    program gives. `what`: "resources" or "labels".
    """
    spoken = dialect.current()
    return {} if spoken is None else spoken.overrides(what)


def find_node(address: str | None, temp_dir: str | None) -> Session | None:
    """Return the node on this machine that a driver must use; None if the driver must start its
    own.

    A concrete `address` is used as it is. `pid:PID` is the runtime that the program with this
    process id has started for itself. "local" starts a runtime.

    None and "auto" try, in this order: PHALANX_ADDRESS, the address that the program's dialect
    finds in the environment, and the cluster that was started last on this machine. If none of
    these exists, None starts a runtime, and "auto" raises ConnectionError. Under a dialect, "auto"
    first tries the program that has started a runtime last.

    Raises ConnectionError for an address without a node on this machine, and ValueError for a
    malformed address.
    """
    spoken = dialect.current()
    if address in (None, "", "auto"):
        of_dialect = None if spoken is None else spoken.address()
        named = os.environ.get("PHALANX_ADDRESS") or of_dialect or "auto"
        address = named if named not in ("auto", "local") else address
        if named == "local" and address != "auto":
            return None
    if address == "local":
        return None
    if address not in (None, "", "auto"):
        if str(address).startswith(OF_PROGRAM):
            return program_of(str(address), temp_dir)[0][0]
        wanted = numeric_addresses(str(address))
        here = (one for one in wanted if local_nodes(one, temp_dir))
        return _node_of(next(here, wanted[0]), temp_dir)
    private = os.environ.get(PRIVATE_ADDRESS)
    # If no address was given: the Cluster that this program has made.
    if private and spoken is not None:
        return _node_of(private, temp_dir)
    nodes = local_nodes(None, temp_dir)
    if nodes:
        _, last = nodes[-1]
        return next(session for session, one in nodes if one.address == last.address)
    if address != "auto":
        return None
    if private:
        return _node_of(private, temp_dir)
    own = programs(temp_dir) if spoken is not None else ()
    if own:  # as in Ray, "auto" also finds a runtime that another program has started for itself
        latest, _ = max(own, key=lambda found: int(found[1].started or 0))
        return latest
    raise ConnectionError(
        "No running Phalanx was found on this machine. Start one with `phalanx start --head`, name "
        "one with `address` or PHALANX_ADDRESS, or leave `address` out to start one in this "
        "process."
    )


def head_to_visit(address: str | None, temp_dir: str | None = None) -> str | None:
    """Return the address of the head that a program with this `address` only visits: it sends
    requests to the head, and has no node. Return None if the program has a node here, or starts
    one.

    Raises ValueError for a malformed address.
    """
    if address in (None, "", "auto"):
        named = os.environ.get("PHALANX_ADDRESS") or address
        address = address if named in ("auto", "local") else named
    if (login := _login(address)) is not None:
        return login
    if address in (None, "", "local") or str(address).startswith(OF_PROGRAM):
        return None
    if str(address).startswith(OF_SOCKET):
        return address
    wanted: tuple[str | None, ...] = (None,)
    if address != "auto":
        if ":" not in str(address) or not str(address).rpartition(":")[2].isdecimal():
            return None
        wanted = numeric_addresses(str(address))
    elif os.environ.get(PRIVATE_ADDRESS) or (dialect.current() is not None and programs(temp_dir)):
        return None  # this is as in find_node
    if any(local_daemons(one, temp_dir) for one in wanted):
        return None
    with contextlib.suppress(ConnectionError):
        found = find_daemons(address)
        _, daemon = found[0]
        return (daemon.name or daemon.address) if _is_others(daemon) else None
    return None


def _login(address: str | None) -> str | None:
    """Return the name of the login that belongs to an address; None if there is none.

    For no address or "auto", this is the current login. But a private cluster of this program, and
    an address that the dialect finds, come before the current login.
    """
    if address in (None, "", "auto"):
        spoken = dialect.current()
        if os.environ.get(PRIVATE_ADDRESS) or (spoken is not None and spoken.address()):
            return None
    login = logins.chosen(address)
    return None if login is None else login.name


def _is_others(daemon: Announcement) -> bool:
    return daemon.kind == REMOTE or daemon.uid >= 0


def _node_of(address: str, temp_dir: str | None) -> Session:
    nodes = local_nodes(address, temp_dir)
    if nodes:
        return nodes[0][0]
    try:
        socket.create_connection(split_address(address), timeout=_PROBE_S).close()
    except OSError as error:
        reason = (error.strerror or "no answer").lower()
        raise ConnectionError(
            f"Nothing listens at {address} ({reason}): `phalanx start --head` starts a cluster "
            "there, and `phalanx status` on the head's machine shows its address."
        ) from None
    raise ConnectionError(
        f"No node of the cluster at {address} runs on this machine under this user: `phalanx start "
        f"--address {address}` joins it. A driver needs a node on its own machine."
    )


def _exported(hook: Callable[[], None]) -> bytes:
    try:
        data = by_value.dumps(hook)
    except Exception as error:
        raise RuntimeEnvSetupError(
            f"Failed to export the setup function. worker_process_setup_hook: {error}"
        ) from error
    return data


def _allow_files() -> None:
    """Raise the limit of open files to the largest value that this user may set.

    For each worker, the driver and the node hold one file open, and the fork server three. Shells
    often start with a limit of 256 or 1024.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
