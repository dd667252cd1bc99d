"""The fork server of one account. It starts the account's commands for a node that runs under
another account.

phalanx-launch executes it as that account, with a socket of the node as descriptor 3. If the socket
is a connection, the fork server and everything that it has started end with the node. If the socket
is listening, kept commands continue when the node's process ends, and the node's next process
connects to the socket.
"""

from __future__ import annotations

import os
import socket
import time
from typing import NoReturn

import msgspec

from phalanx.protocol.fork_messages import (
    Began,
    Commands,
    Exited,
    ForgetEnds,
    ReportCommands,
    RunCommand,
    SendSignal,
    decode_body,
)
from phalanx.runtime.os.connection import Connection
from phalanx.runtime.os.file_modes import keep_private
from phalanx.runtime.os.fork_server import ForkServer
from phalanx.runtime.os.kept_identity import WAITS_S
from phalanx.runtime.os.peer_user import peer_of
from phalanx.runtime.os.process_names import FORK_SERVER, name_process
from phalanx.runtime.os.session import Session

_SOCKET = 3
_NOWHERE = "/nonexistent"
_KILL = 9
_LOOK_EVERY_S = 60.0
"""Seconds after which a fork server without a node looks whether it is still needed."""


class UserForkServer(ForkServer):
    """A fork server that waits for the node's next process while it has kept commands."""

    def __init__(self, sock: socket.socket, session: Session) -> None:
        is_listening = bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
        first = sock.accept()[0] if is_listening else sock
        super().__init__(first, session)
        self._kept: set[bytes] = set()
        """The kept commands whose ends were not reported yet."""
        self._ends: dict[bytes, Exited] = {}
        """The ends of kept commands that the head may not know."""
        self._node_uid = peer_of(first).uid
        self._alone_until = 0.0
        if is_listening:
            self._listener = sock
            sock.setblocking(False)
            self.read_from(sock.fileno(), self._node_came)

    def serve(self) -> None:
        """Run until the node is gone and no kept command needs this process."""
        self.pass_signals_over()
        while not self.node.closed or self._is_needed():
            if not self.round(self.patience_s()):
                self._lose_node()
        self.end_everything()

    def patience_s(self) -> float | None:
        """Return how long to wait for an event, in seconds; None for no limit."""
        patience_s = super().patience_s()
        if not self.node.closed:
            return patience_s
        return _LOOK_EVERY_S if patience_s is None else patience_s

    def on_message(self, message: msgspec.Struct) -> None:
        """Handle an order of the node."""
        match message:
            case RunCommand():
                if message.is_kept:
                    self._kept.add(message.process)
                super().on_message(message)
            case ReportCommands():
                self.node.post(Commands(self._running(), list(self._ends.values())))
            case ForgetEnds():
                for process in message.processes:
                    self._ends.pop(process, None)
            case _:
                super().on_message(message)

    def report(self, message: Began | Exited) -> None:
        """Report to the node. The end of a kept command is also remembered."""
        if isinstance(message, Exited) and message.process in self._kept:
            self._kept.discard(message.process)
            self._ends[message.process] = message
        super().report(message)

    def _running(self) -> list[Began]:
        begun = [one for one in self._children.values() if one.process in self._kept]
        found = [Began(one.process, one.pid) for one in begun]
        return found + [Began(process, 0) for process in self._starting if process in self._kept]

    # ---- the node's processes --------------------------------------------------------------------

    def _is_needed(self) -> bool:
        if self._ends_kept:
            return False
        return bool(self._kept) or (bool(self._ends) and time.monotonic() < self._alone_until)

    def _lose_node(self) -> None:
        """Continue without a node. Commands that are not kept end."""
        if self.node.closed:
            return
        self._epoll.unregister(self.node.fileno)
        self.node.close()
        self.node.fileno = -1
        self._unreported.clear()  # the node's next process asks which commands run
        self._alone_until = time.monotonic() + WAITS_S
        for process in {*self._children, *self._starting} - self._kept:
            self.on_message(SendSignal(process, _KILL))

    def _node_came(self) -> None:
        """Continue with the node's next process, which takes the place of an earlier one."""
        try:
            sock, _ = self._listener.accept()
        except OSError:  # it has already left
            return
        if peer_of(sock).uid != self._node_uid:
            sock.close()
            return
        self._lose_node()
        self.follow(Connection(sock, decode=decode_body))


def main() -> NoReturn:
    """Serve the node, and its next processes."""
    keep_private()
    os.set_inheritable(_SOCKET, False)
    name_process(FORK_SERVER)
    nothing = Session(
        name="", directory=_NOWHERE, shared=_NOWHERE, spill=_NOWHERE, disk=_NOWHERE
    )  # this account cannot enter the node's session
    UserForkServer(socket.socket(fileno=_SOCKET), nothing).serve()
    os._exit(0)


if __name__ == "__main__":
    main()
