"""Lets clients on other machines reach their drivers.

A client submits a job whose command is its driver. The driver joins its node like any other driver,
so the head knows the driver's node and job. The client then asks the head for its driver, and the
head tells its gateway to admit one connection with the client's token.

Where jobs run as their submitters (mode *system*), the driver cannot join a node. Its job makes a
cluster of its own, whose head listens at the rendezvous of the job and knows the secret of the
job's members.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from phalanx.errors import JobCommandError, JobNotFoundError, NotAllowedError
from phalanx.head.drivers import Drivers
from phalanx.head.nodes.directory import NodeDirectory
from phalanx.head.rights.tokens import Tokens
from phalanx.model.ids import PREFIX_BYTES, PROCESS_ID_BYTES, GangId, client_socket_of
from phalanx.model.principals import TOKEN
from phalanx.protocol.gateway_messages import Admit
from phalanx.protocol.requests.client_drivers import EnterDriver
from phalanx.protocol.requests.request import Asker, Entry


class OwnCluster(NamedTuple):
    """The address of a cluster that a running job makes for itself."""

    gang: GangId
    host: str
    port: int
    secret: str
    """The token of that cluster."""


class ClientDrivers:
    """Tells clients how to reach their drivers."""

    def __init__(
        self,
        *,
        drivers: Drivers,
        nodes: NodeDirectory,
        tokens: Tokens,
        owner_of: Callable[[str], str | None],
        admit: Callable[[Admit], None],
        own_cluster: Callable[[str], OwnCluster | None] | None,
    ) -> None:
        """`owner_of` returns the owner of a job by its full name; None for an unknown job. `admit`
        gives a permission to the head's gateway. `own_cluster` returns the cluster of a job by the
        job's full name, or None while the job does not run. Pass None for `own_cluster` where
        drivers join nodes.
        """
        self._own_cluster = own_cluster
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
        token = self._tokens.id_of(principal.name)
        permission = self._permission(token, request.job)
        if permission is None:
            raise JobCommandError(f"the job {request.job} has no driver yet")
        self._admit(permission)
        return permission.target

    def _permission(self, token: str, job: str) -> Admit | None:
        if self._own_cluster is not None:
            own = self._own_cluster(job)
            if own is None:
                return None
            return Admit(token, own.gang[:PROCESS_ID_BYTES], own.host, own.port, own.secret)
        driver = self._drivers.in_job(job)
        node = None if driver is None else self._nodes.of_prefix(driver[:PREFIX_BYTES])
        if driver is None or node is None or not self._nodes.is_here(node.node_id):
            return None
        host = self._nodes.address_of(node.node_id)
        return Admit(token, client_socket_of(driver), host, node.port)
