"""The fork server of one account, which starts that account's commands for a node under another
account.

phalanx-launch executes it as that account, with the socket to the node as descriptor 3. When the
node closes the socket, the fork server and everything that it has started end.
"""

from __future__ import annotations

import os
import socket
from typing import NoReturn

from phalanx.runtime.os.file_modes import keep_private
from phalanx.runtime.os.fork_server import ForkServer
from phalanx.runtime.os.process_names import FORK_SERVER, name_process
from phalanx.runtime.os.session import Session

_SOCKET = 3
_NOWHERE = "/nonexistent"


def main() -> NoReturn:
    """Serve the node until its socket closes."""
    keep_private()
    os.set_inheritable(_SOCKET, False)
    name_process(FORK_SERVER)
    nothing = Session(
        name="", directory=_NOWHERE, shared=_NOWHERE, spill=_NOWHERE, disk=_NOWHERE
    )  # this account cannot enter the node's session
    ForkServer(socket.socket(fileno=_SOCKET), nothing).serve()
    os._exit(0)


if __name__ == "__main__":
    main()
