"""Lets clients on other machines reach their drivers.

A client submits a job whose command is its driver. The driver joins its node as any other does, so
the head knows where it is and in which job it runs. The client then asks the head for its driver,
and the head permits its gateway one connection with the client's token.
"""

from __future__ import annotations

from collections.abc import Callable

from phalanx.errors import JobCommandError, JobNotFoundError, NotAllowedError
from phalanx.head.drivers import Drivers
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.rights.tokens import Tokens
from phalanx.model.ids import PREFIX_BYTES, client_socket_of
from phalanx.model.principals import TOKEN
from phalanx.protocol.gateway_messages import Admit
from phalanx.protocol.requests.client_drivers import EnterDriver
from phalanx.protocol.requests.request import Asker, Entry


class ClientDrivers:
    """The drivers of clients."""

    def __init__(
        self,
        *,
        drivers: Drivers,
        nodes: NodeDirectory,
        tokens: Tokens,
        owner_of: Callable[[str], str | None],
        admit: Callable[[Admit], None],
    ) -> None:
        """`owner_of` returns the owner of a job by its full name; None for an unknown job. `admit`
        gives a permission to the head's gateway.
        """
        self._owner_of = owner_of
        self._drivers = drivers
        self._nodes = nodes
        self._tokens = tokens
        self._admit = admit

    def entries(self) -> list[Entry]:
        """Return the requests that this object answers, each with its handler."""
        return [EnterDriver.handled_by(self._enter)]

    def _enter(self, asker: Asker[bytes], request: EnterDriver) -> bytes:
        principal = asker.principal
        if principal is None or principal.kind != TOKEN:
            raise NotAllowedError("only the holder of a token can be the client of a driver")
        owner = self._owner_of(request.job)
        if owner is None:
            raise JobNotFoundError(f"there is no job {request.job}")
        if owner != principal.user:
            raise NotAllowedError(
                f"the job {request.job} belongs to {owner or 'nobody'}, and only its owner can be "
                "the client of its driver"
            )
        driver = self._drivers.in_job(request.job)
        node = None if driver is None else self._nodes.of_prefix(driver[:PREFIX_BYTES])
        if driver is None or node is None or not self._nodes.is_here(node.node_id):
            raise JobCommandError(f"the job {request.job} has no driver yet")
        target = client_socket_of(driver)
        token = self._tokens.id_of(principal.name)
        self._admit(Admit(token, target, node.host or "127.0.0.1", node.port))
        return target
