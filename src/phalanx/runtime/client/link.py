"""Keeps a client connected with its driver: connects, and connects again after a cut."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

from phalanx.errors import PhalanxError, ProtocolError
from phalanx.protocol.client_messages import (
    CLIENT_VERSION,
    GREETING_BYTES,
    Greeting,
    Welcome,
    decode_greeting,
)
from phalanx.protocol.frames import encode_frame
from phalanx.runtime.client.channel import Channel, read_frame
from phalanx.runtime.client.door import python_release
from phalanx.runtime.os.own_time import own_time

_GREETING_S = 20.0
_PAUSES_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


class Refused(ConnectionError):
    """Raised if the driver does not take this client."""


class Link:
    """The connections of one client, one after another."""

    def __init__(
        self,
        reach: Callable[[], socket.socket],
        channel: Channel,
        secret: bytes,
        *,
        reconnect_s: float,
        lost: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        """`reach` returns a connection to the driver. After an OSError it is called again; a
        PhalanxError is final. `lost` is called with the reason when there will be no further
        connection.
        """
        self._reach = reach
        self._channel = channel
        self._secret = secret
        self._reconnect_s = reconnect_s
        self._process = b""
        self._lost = lost
        self._warn = warn

    def begin(self, sock: socket.socket) -> Welcome:
        """Begin with a connection that leads to the driver, and serve from now on. Returns the
        driver's facts. Raises OSError, Refused and PhalanxError.
        """
        welcome = self._greet(sock)
        threading.Thread(target=self._run, args=(sock,), name="client link", daemon=True).start()
        return welcome

    def _greet(self, sock: socket.socket) -> Welcome:
        """Introduce this client to the driver, and continue the stream. Closes the socket if that
        fails.
        """
        try:
            sock.settimeout(_GREETING_S)
            have = self._channel.received
            greeting = Greeting(CLIENT_VERSION, self._secret, have, python_release(), self._process)
            sock.sendall(encode_frame([greeting]))
            welcome = read_frame(sock, GREETING_BYTES, decode_greeting)
            if not isinstance(welcome, Welcome):
                raise ProtocolError("a driver answers with a welcome")
            if welcome.refusal:
                raise Refused(welcome.refusal)
            self._process = welcome.process
            self._channel.resume(welcome.have)
        except EOFError:
            sock.close()
            raise ConnectionResetError("the driver hung up") from None
        except BaseException:
            sock.close()
            raise
        return welcome

    def _run(self, sock: socket.socket) -> None:
        try:
            self._serve(sock)
        finally:
            self._channel.close()
            self._channel.forget()

    def _serve(self, sock: socket.socket) -> None:
        found: socket.socket | None = sock
        while found is not None:
            reason = ""
            try:
                self._channel.serve(found)
            except ProtocolError as error:
                reason = str(error)
            found = self._connect_again(reason)

    def _connect_again(self, reason: str) -> socket.socket | None:
        """Return a new connection. Reports the loss of the driver if there is none in time."""
        deadline = own_time() + self._reconnect_s
        tries = 0
        while not self._channel.is_closed:
            try:
                sock = self._reach()
                self._greet(sock)
                return sock
            except Refused as error:
                self._lost(f"the driver refuses this client: {error}")
                return None
            except OSError as error:
                reason = str(error) or reason
            except PhalanxError as error:  # the job has ended, or the token was revoked
                self._lost(f"the driver on the cluster is gone: {error}")
                return None
            if own_time() >= deadline:
                self._lost(
                    f"the driver could not be reached for {self._reconnect_s:g} s, so its work was "
                    f"ended: {reason}"
                )
                return None
            if tries == len(_PAUSES_S):
                self._warn(f"The connection to the driver is lost; trying again ({reason}).")
            time.sleep(_PAUSES_S[min(tries, len(_PAUSES_S) - 1)])
            tries += 1
        return None
