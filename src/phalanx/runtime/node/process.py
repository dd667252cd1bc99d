"""A node's process, from its start to its end."""

from __future__ import annotations

import gc
import json
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import msgspec

from phalanx.model.garbage import collect_rarely
from phalanx.runtime.node.config import NodeConfig
from phalanx.runtime.os import kept_records, kept_sessions
from phalanx.runtime.os import session as sessions
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.daemon_log import LOG
from phalanx.runtime.os.exec_again import exec_again
from phalanx.runtime.os.file_modes import keep_private
from phalanx.runtime.os.kept_identity import does_output_wait, has_members
from phalanx.runtime.os.process_names import NODE, name_process
from phalanx.runtime.os.process_tree import end_orphans, keep_descendants
from phalanx.runtime.os.system import log_defect
from phalanx.runtime.worker import fork_server
from phalanx.scheduler.placement.labels import NODE_LABEL

if TYPE_CHECKING:
    from phalanx.runtime.node.composition import EmbeddedNode
    from phalanx.runtime.worker.survivors import SurvivorKeeper


def main() -> NoReturn:
    """Read the configuration from standard input, fork the fork server, and serve."""
    keep_private()
    gc.disable()  # no collection before all modules are imported, because they stay in memory
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    driver_fd = int(sys.argv[1])
    config = msgspec.convert(json.loads(sys.stdin.readline()), NodeConfig)
    is_aloud = not config.log
    path = config.log or os.path.join(config.session.logs, "node.log")
    LOG.keep(path, "node", config.node_id, is_aloud=is_aloud)
    fork_server_pid, node_end, lifeline = begin_fork_server(config, driver_fd)
    if config.member is not None and config.member.comes_back:
        # A handler, because what this process starts would inherit that the signal is ignored.
        signal.signal(signal.SIGHUP, lambda *_: None)
    name_process(NODE)
    keep_descendants()  # if the fork server is killed, its children become children of this process
    driver = None
    if driver_fd >= 0:
        driver = Connection(socket.socket(fileno=driver_fd))
    code = 0
    node = None
    is_over = False
    try:
        if config.keeps_commands:
            begin_keeping(config, fork_server_pid)
        # Done only now, because the fork server imports its modules while this process imports the
        # machines.
        from phalanx.runtime.node.composition import EmbeddedNode

        servers = NodeForkServers(config, lifeline)
        node = EmbeddedNode(config, node_end, fork_server_pid, servers)
        collect_rarely()
        if not config.lives_with_driver:
            own(config, node)
        node.serve(driver)
        is_over = not node.goes_on
    except BaseException as error:
        log_defect(error)
        code = 1
    finally:
        if node is not None and node.has_lost_fork_server:
            end_orphans(tuple)
        goes_on = leave(config, node, is_over)
    if node is not None and (node.is_stale or node.is_restarting):
        come_back(msgspec.structs.replace(config, addresses=list(node.heads)), goes_on=goes_on)
    os._exit(code)


def begin_fork_server(config: NodeConfig, driver_fd: int) -> tuple[int, socket.socket, int]:
    """Fork the fork server. Returns its pid, the socket to it, and the read end of the pipe with
    whose other end it lives.
    """
    node_end, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    lifeline, own_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        node_end.close()
        for fd in (driver_fd, config.ready_fd, config.parent_fd, own_end):
            if fd >= 0:
                os.close(fd)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # see `come_back`
        LOG.become("fork server")
        fork_server.run(server_end, config.session, config.preload, lifeline)
    server_end.close()
    return pid, node_end, lifeline


def leave(config: NodeConfig, node: EmbeddedNode | None, is_over: bool) -> bool:
    """Delete the session, unless the node's next process continues with it. That process also needs
    the output in it.

    `is_over`: whether no member continues. Returns whether the next process continues with the
    session.
    """
    if node is not None and node.goes_on and os.path.isdir(config.session.kept):
        return True
    sessions.leave(config.session, is_over, config.keeps_commands)
    return False


def own(config: NodeConfig, node: EmbeddedNode) -> None:
    """Make this process the owner of the session. From now on, SIGTERM ends the process. In a
    cluster, SIGHUP restarts it.
    """
    sessions.own(config.session, os.getpid())
    signal.signal(signal.SIGTERM, lambda *_: node.loop.stop())
    if config.member is not None:
        signal.signal(signal.SIGHUP, lambda *_: node.restart())


class NodeForkServers:
    """Starts the next fork servers. (The first one is forked while this process is small.)"""

    def __init__(self, config: NodeConfig, lifeline: int) -> None:
        self._config = config
        self._lifeline = lifeline

    def start(self) -> tuple[socket.socket, int]:
        """Start a fork server. Returns the socket to it and its pid."""
        from phalanx.runtime.worker import restarted

        session = self._config.session
        sock, pid = restarted.start(session, self._config.preload, self._lifeline)
        if self._config.keeps_commands:
            sessions.note_helper(session.kept, pid)
        return sock, pid

    def keeper(self, sock: socket.socket, helpers: Callable[[], set[int]]) -> SurvivorKeeper:
        """Make a keeper for the processes that have outlived a fork server."""
        from phalanx.runtime.worker.survivors import SurvivorKeeper

        return SurvivorKeeper(sock, self._config.session, self._lifeline, helpers)


def begin_keeping(config: NodeConfig, fork_server: int) -> None:
    """Prepare the node's directory of records, so that its commands can outlive this process.

    End the fork server of an earlier process of this node, if it still runs, and record the present
    one. Add the ids of earlier processes to the node's configuration, and record the present id.
    """
    kept = config.session.kept
    sessions.end_helpers(kept)
    formers = kept_records.identify(kept, config.address, config.node_name, config.node_id)
    sessions.note_helper(kept, fork_server)
    assert config.member is not None
    config.member.formers = list(dict.fromkeys([*config.member.formers, *formers]))


def come_back(config: NodeConfig, *, goes_on: bool) -> NoReturn:
    """Start this process again as another node, which continues with the members. Call this if the
    head has declared the present node dead, or if somebody has asked for a restart.

    `goes_on`: whether the next process continues with the session even if there are no members,
    because the session has the output of finished jobs.
    """
    session = config.session
    if goes_on or has_members(session.kept) or does_output_wait(session.kept, session.disk):
        session = kept_sessions.go_on(config.session)
    else:
        root = os.path.dirname(config.session.directory)
        session = sessions.create(root, has_users=bool(config.launch))
        if config.keeps_commands:
            os.mkdir(session.kept, 0o700)
    # Another restart can be asked for before the next process handles SIGHUP, which would end it.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert __spec__ is not None
    exec_again(__spec__.name, as_another(config, session), ["-1"], config.parent_fd)


def as_another(config: NodeConfig, session: sessions.Session) -> NodeConfig:
    """Return the configuration of a node that comes back under another id."""
    assert config.member is not None
    node_id = secrets.token_hex(28)
    return msgspec.structs.replace(
        config,
        session=session,
        node_id=node_id,
        labels={**config.labels, NODE_LABEL: node_id},
        ready_fd=-1,
        # The head must not count the former process's amounts beside those of the next one.
        member=msgspec.structs.replace(config.member, comes_back=True, formers=[config.node_id]),
    )


if __name__ == "__main__":
    main()
