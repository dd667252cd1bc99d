"""Starts and ends the daemons of clusters on this machine: heads and nodes."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any

import msgspec

from phalanx.errors import AuthenticationError, SystemFailureError
from phalanx.model.machines import MachineShare
from phalanx.model.options import ACCELERATORS
from phalanx.model.system_settings import SystemSettings
from phalanx.node.checks import CheckRules
from phalanx.node.options import PATIENCE_S
from phalanx.runtime.daemons import cluster_token
from phalanx.runtime.daemons.daemon_files import Announcement, Failure
from phalanx.runtime.daemons.local import link_of, local_daemons, split_address
from phalanx.runtime.os import kept_sessions
from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.daemon_log import plain
from phalanx.runtime.os.environment import child_environment, existing_directory
from phalanx.runtime.os.kept_identity import does_output_wait, is_waited_for
from phalanx.runtime.os.process_tree import is_group_alive, kill_trees
from phalanx.runtime.os.session import Session
from phalanx.runtime.os.visible_devices import check_devices
from phalanx.scheduler.devices.ports import parse_ports
from phalanx.scheduler.placement.labels import NODE_LABEL, is_value
from phalanx.scheduler.placement.memory_pressure import MEMORY_LIMIT
from phalanx.scheduler.placement.placement_policy import PlacementPolicy

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0
KEEP_LOGS = 50
_SHOWN_LINES = 20
PRIVATE_ADDRESS = "PHALANX_PRIVATE_ADDRESS"
"""The variable with the address of the private cluster that "auto" finds. That is the cluster that
was started last.
"""


class HeadOptions(msgspec.Struct, kw_only=True):
    """The options of a new head; see HeadConfig."""

    host: str = "127.0.0.1"
    port: int = 0
    token_file: str = ""
    """The file of the token; "" for the user's own file."""
    insecure: bool = False
    store: tuple[str, ...] = ("memory",)
    marks: str = ""
    cluster: str = ""
    accept_loss: bool = False
    history: str = ""
    history_limits: dict[str, Any] = {}
    audit: str = ""
    is_shared: bool = False
    group: str = ""
    launch_keys: str = ""
    limits: dict[str, Any] = {}
    placement: PlacementPolicy = PlacementPolicy()
    settings: SystemSettings = SystemSettings()
    standbys: tuple[str, ...] = ()
    temp_dir: str | None = None
    is_private: bool = False


class NodeOptions(msgspec.Struct, kw_only=True):
    """The options of a new node of a cluster; see NodeConfig and MemberConfig."""

    head: str
    """HOST:PORT of the head that was started."""
    standbys: tuple[str, ...] = ()
    """HOST:PORT of each standby of the head."""
    resources: dict[str, float]
    labels: dict[str, str] = {}
    object_store_bytes: int
    node_name: str = ""
    machine: MachineShare | None = None
    host: str = "127.0.0.1"
    port: int = 0
    token_file: str = ""
    insecure: bool = False
    topology: str = ""
    unit_resources: tuple[str, ...] = ACCELERATORS
    memory_limit: float = MEMORY_LIMIT
    patience_s: float = PATIENCE_S
    ports: str = ""
    devices: str = ""
    checks: dict[str, str] = {}
    check_rules: CheckRules = CheckRules()
    spill_threshold: int = 0
    temp_dir: str | None = None
    is_private: bool = False
    launch: str = ""
    shared_dir: str = ""
    keeps_commands: bool | None = None
    """Whether commands of jobs continue when the node's process has ended, until its next process
    takes them over. None: they do, unless the node ends together with another process.
    """
    env_vars: dict[str, str] = {}
    """Variables that the node's process, and therefore its workers, get in addition to those of
    this process.
    """


class Daemon:
    """A head or node that was started here. With `parent_fd`, the daemon ends together with this
    process.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], session: Session, announcement: Announcement
    ) -> None:
        self.process = process
        self.session = session
        self.announcement = announcement
        self.log_path = _log_of(session)

    def kill(self) -> None:
        """Kill the daemon and all processes that it has started, except for commands that continue
        without their node. As in a power failure, no process can finish its work.
        """
        _kill(self.process.pid)
        self.process.wait()

    def stop(self) -> None:
        """Stop the daemon in an orderly way. If it does not end in time, kill it."""
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()


def start_head(options: HeadOptions, parent_fd: int = -1) -> Daemon:
    """Start a head, and wait until it serves, or stands by because another head serves.

    Raises AuthenticationError for a token that cannot be used, and SystemFailureError for all other
    failures.
    """
    token_file = options.token_file or cluster_token.default_path()
    cluster_token.ensure(token_file)
    session = sessions.create(options.temp_dir)
    config = {
        "session": msgspec.to_builtins(session),
        "host": options.host,
        "port": options.port,
        "token_file": token_file,
        "insecure": options.insecure,
        "store": options.store,
        "marks": options.marks,
        "cluster": options.cluster,
        "accept_loss": options.accept_loss,
        "history": options.history,
        "history_limits": options.history_limits,
        "audit": options.audit,
        "is_shared": options.is_shared,
        "group": options.group,
        "launch_keys": options.launch_keys,
        "limits": options.limits,
        "placement": msgspec.to_builtins(options.placement),
        "settings": msgspec.to_builtins(options.settings),
        "is_private": options.is_private,
        "standbys": options.standbys,
    }
    return _start("phalanx.runtime.head.process", [], config, session, parent_fd)


def start_node(options: NodeOptions, parent_fd: int = -1) -> Daemon:
    """Start a node, and wait until it has joined.

    Raises AuthenticationError if the token is not the cluster's, and SystemFailureError for all
    other failures.
    """
    keeps_commands = parent_fd < 0 if options.keeps_commands is None else options.keeps_commands
    has_users = bool(options.launch)
    if keeps_commands:
        session = kept_sessions.create(options.temp_dir, options.head, options.node_name, has_users)
    else:
        session = sessions.create(options.temp_dir, has_users)
    try:
        config = node_config(options, session)
    except ValueError:
        _drop(session)
        raise
    config["keeps_commands"] = keeps_commands
    module = "phalanx.runtime.node.process"
    return _start(module, ["-1"], config, session, parent_fd, options.env_vars)


def node_config(options: NodeOptions, session: Session) -> dict[str, Any]:
    """Return the configuration that the node's process reads. Raises ValueError."""
    parse_ports(options.ports)
    check_devices(options.resources, {**os.environ, **options.env_vars})
    check_node_name(options.node_name)
    node_id = os.urandom(28).hex()
    for address in (options.head, *options.standbys):
        split_address(address)
    return {
        "session": msgspec.to_builtins(session),
        "resources": options.resources,
        "labels": {NODE_LABEL: node_id, **options.labels},
        "object_store_bytes": options.object_store_bytes,
        "node_id": node_id,
        "node_name": options.node_name,
        "machine": msgspec.to_builtins(options.machine),
        "unit_resources": options.unit_resources,
        "memory_limit": options.memory_limit,
        "topology": options.topology,
        "lives_with_driver": False,
        "addresses": (options.head, *options.standbys),
        "ports": options.ports,
        "devices": options.devices,
        "checks": options.checks,
        "check_rules": msgspec.to_builtins(options.check_rules),
        "spilling": {"threshold": options.spill_threshold},
        "member": {
            "host": options.host,
            "port": options.port,
            "token_file": options.token_file or cluster_token.default_path(),
            "insecure": options.insecure,
            "patience_s": options.patience_s,
        },
        "is_private": options.is_private,
        "launch": options.launch,
        "shared_dir": options.shared_dir,
    }


def check_node_name(name: str) -> None:
    """Raise ValueError if `name` is no valid name of a node. "" stands for the default name."""
    if name and not is_value(name):
        raise ValueError(
            f"{name!r} is no valid node name: use 1 to 63 letters, digits, '-', '_' "
            "and '.', beginning and ending with a letter or digit."
        )


def _start(
    module: str,
    arguments: list[str],
    config: dict[str, Any],
    session: Session,
    parent_fd: int,
    variables: dict[str, str] | None = None,
) -> Daemon:
    ready_read, ready_write = os.pipe()
    config["ready_fd"], config["parent_fd"] = ready_write, parent_fd
    config["log"] = log_path = _log_of(session)
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=(ready_write, *([parent_fd] if parent_fd >= 0 else [])),
            start_new_session=True,
            env=child_environment() | (variables or {}),
            cwd=existing_directory(),
        )
    finally:
        os.close(log)
        os.close(ready_write)
    try:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(json.dumps(config).encode() + b"\n")
        announcement = _wait_ready(ready_read, log_path)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        _drop(session)
        raise
    finally:
        os.close(ready_read)
    return Daemon(process, session, announcement)


def _drop(session: Session) -> None:
    """Delete the session of a daemon that could not start, unless members or output of jobs wait
    for the next daemon.
    """
    if not (is_waited_for(session.kept) or does_output_wait(session.kept, session.disk)):
        sessions.remove(session)


def _log_of(session: Session) -> str:
    """Return the path of a daemon's log. Logs stay after their sessions; only the oldest ones are
    deleted.
    """
    directory = os.path.join(os.path.dirname(session.directory), "logs")
    with contextlib.suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    logs = sorted(
        (os.path.join(directory, name) for name in os.listdir(directory)), key=os.path.getmtime
    )
    for path in logs[: max(len(logs) - KEEP_LOGS, 0)]:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    return os.path.join(directory, f"{session.name}.log")


def _wait_ready(fd: int, log_path: str) -> Announcement:
    deadline = time.monotonic() + START_TIMEOUT_S
    data = b""
    while not data.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            raise SystemFailureError(f"The daemon did not start within {START_TIMEOUT_S:.0f} s.")
        chunk = os.read(fd, 1 << 16)
        if not chunk:
            raise SystemFailureError(f"The daemon ended while starting: {_tail(log_path)}")
        data += chunk
    announcement = json.loads(data)
    if "reason" in announcement:
        failure = msgspec.convert(announcement, Failure)
        raise (AuthenticationError if failure.is_about_token else SystemFailureError)(
            failure.reason
        )
    return msgspec.convert(announcement, Announcement)


def _tail(path: str) -> str:
    with contextlib.suppress(OSError), open(path, errors="replace") as file:
        lines = file.read().splitlines()[-_SHOWN_LINES:]
        return "\n".join(map(plain, lines)).strip()[-2000:]
    return "there is no log"


def link_cluster(address: str, temp_dir: str) -> str:
    """Make a cluster visible to drivers whose sessions are in another directory.

    Returns the path of a link, which must be removed together with the cluster.
    """
    link = link_of(sessions.runtime_root(), address)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(link)
    os.symlink(temp_dir, link)
    return link


def stop_all(temp_dir: str | None = None, force: bool = False) -> list[Announcement]:
    """End this user's daemons on this machine, nodes before heads. Also end the members of dead
    nodes, and delete dead sessions. With `force`, remove the containers of workers that were killed
    with their node. Returns the daemons that were ended.
    """
    from phalanx.runtime.containers.leftovers import remove_leftovers

    found = local_daemons(temp_dir=temp_dir)[::-1]
    # All nodes at once: while one of them ended, the head would start its jobs on the others.
    for is_node in (True, False):
        ending = [one for _, one in found if (one.kind == "node") == is_node]
        for one in ending:
            _ask_to_end(one, force)
        for one in ending:
            _wait_ended(one)
    roots = {os.path.dirname(session.directory) for session, _ in found}
    for root in roots | {sessions.runtime_root(temp_dir)}:
        # another process has removed the file
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            kept_sessions.end_members(root)
            sessions.sweep(root)
    if force:
        remove_leftovers()
    return [one for _, one in found]


def _ask_to_end(one: Announcement, force: bool) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(one.pid, signal.SIGKILL if force else signal.SIGTERM)


def _wait_ended(one: Announcement) -> None:
    """Wait until a daemon and its helpers have ended; kill them if they take too long.

    The helpers end when the daemon ends. A node's fork server first ends everything that it has
    started, in all sessions.
    """
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while sessions.started_at(one.pid) == one.started or is_group_alive(one.pid):
        if time.monotonic() > deadline:
            _kill(one.pid)
            deadline = float("inf")
        time.sleep(0.02)


def _kill(daemon: int) -> None:
    """Kill a daemon, its helpers and the work that does not continue without it."""
    # Only for daemons that do not end by themselves: the module needs the C library.
    from phalanx.runtime.os.shields import is_kept

    kill_trees([daemon], is_kept)
