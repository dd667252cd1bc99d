"""Joins a client to its driver, through the head's gateway."""

from __future__ import annotations

import contextlib
import socket
from typing import TypeVar

import msgspec

from phalanx.errors import JobCommandError, JobNotFoundError, PhalanxError, SystemFailureError
from phalanx.model.jobs import states as st
from phalanx.protocol.handshake import Role, Status
from phalanx.protocol.requests.client_drivers import EnterDriver
from phalanx.protocol.requests.jobs import GetJob, ListJobs, ReadJobLog
from phalanx.protocol.requests.request import Request
from phalanx.runtime.client.conversation import Conversation
from phalanx.runtime.client.engine import ClientEngine
from phalanx.runtime.client.link import Link
from phalanx.runtime.daemons.personal_token import PersonalToken
from phalanx.runtime.daemons.remote import ask_remote, connected, exactly
from phalanx.runtime.daemons.trust import Trust
from phalanx.runtime.engine.interface import EngineOptions, Output

R = TypeVar("R")

ANSWER_S = 20.0


class ClientOf(msgspec.Struct, frozen=True, kw_only=True):
    """The address and the secrets with which a client reaches its driver."""

    address: str
    """HOST:PORT of the head."""
    token: PersonalToken
    trust: Trust
    job: str
    """The full name of the job that is the driver."""
    secret: bytes
    reconnect_s: float

    def reach(self) -> socket.socket:
        """Return a connection to the driver. Raises OSError for a failure after which the caller
        may try again, and PhalanxError for a final one.
        """
        try:
            target = self._ask(EnterDriver(self.job))
        except JobCommandError as error:
            self.check_job()
            raise ConnectionError(str(error)) from None
        host, _, port = self.address.rpartition(":")
        sock = connected(
            host.strip("[]"), int(port), self.token, ANSWER_S, self.trust, Role.CLIENT_DRIVER
        )
        try:
            sock.sendall(target)
            status = exactly(sock, 1)[0]
            if status != Status.OK:
                raise ConnectionError(f"the driver cannot be reached ({Status(status).name})")
        except BaseException:
            sock.close()
            raise
        return sock

    def check_job(self) -> str:
        """Return why the driver's job waits; "" if it runs. Raises SystemFailureError if the job
        has ended.
        """
        try:
            (found,) = self._ask(ListJobs(name=self.job))
        except JobNotFoundError:
            raise SystemFailureError(f"the job {self.job} was deleted") from None
        if found.state in st.SETTLED:
            why = f": {found.reason}" if found.reason else ""
            said = self._last_words()
            raise SystemFailureError(
                f"the job {self.job} is {found.state}{why}; phalanx logs {self.job} has its output"
                + (f", which ends with: {said}" if said else "")
            )
        return "" if found.state == st.RUNNING else found.reason

    def _last_words(self) -> str:
        """Return the last line of the driver's output; "" if there is none."""
        with contextlib.suppress(OSError, PhalanxError, IndexError):
            member = self._ask(GetJob(self.job)).members[0].name
            data = self._ask(ReadJobLog(self.job, member)).data
            return data.decode("utf-8", "replace").strip().splitlines()[-1]
        return ""

    def _ask(self, request: Request[R]) -> R:
        return ask_remote(self.address, self.token, request, ANSWER_S, self.trust)


def join(
    client: ClientOf, sock: socket.socket, options: EngineOptions, output: Output
) -> ClientEngine:
    """Return the engine of a client. `sock` leads to its driver. Raises OSError and
    PhalanxError.
    """
    conversation = Conversation()
    link = Link(
        client.reach,
        conversation.channel,
        client.secret,
        reconnect_s=client.reconnect_s,
        lost=conversation.lose,
        warn=output.warn,
    )
    try:
        welcome = link.begin(sock)
    except BaseException:
        conversation.stop()
        conversation.channel.close()
        conversation.channel.forget()
        raise
    engine = ClientEngine(
        conversation,
        welcome,
        address=f"phalanx://{client.address}",
        job=(options.queue, options.priority),
    )
    engine.hear(output)
    return engine
