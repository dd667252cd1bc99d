"""Messages between a node (or the head process) and its gateway.

The frames are those of `protocol.frames`, and go over a socket pair that no other process holds.
Other sockets have other types of messages. Nodes are named by the hex of the first 6 bytes of their
processes' ids.
"""

from __future__ import annotations

import msgspec

from phalanx.errors import ProtocolError

# ---- to the gateway ----------------------------------------------------------------------------


class AddressBook(msgspec.Struct, array_like=True, tag=0):
    """The addresses of the gateways of other nodes: (host, port) by node; port 0 removes a node.

    With `full`, nodes that are not in this message are removed.
    """

    addresses: dict[str, tuple[str, int]]
    full: bool = False


class Pull(msgspec.Struct, array_like=True, tag=1):
    """Fetch an object's file of `size` bytes from the first of these nodes that can send it.

    `on_disk`: write the file into the directory of spilled objects instead of shared memory.
    `spare`: a deleted object, whose file is `spare_file`. The gateway may overwrite this file with
    the new object; otherwise it deletes the file.
    """

    name: str
    size: int
    nodes: list[str]
    on_disk: bool = False
    spare: str = ""


class CancelPull(msgspec.Struct, array_like=True, tag=2):
    """Stop fetching this object, because no process waits for it. The gateway answers with
    `Pulled`.
    """

    name: str


class ReleaseFile(msgspec.Struct, array_like=True, tag=3):
    """Release the file of a fetched copy, because this node no longer has it."""

    name: str


class KnowTokens(msgspec.Struct, array_like=True, tag=4):
    """The tokens of people and robots: the hashes of each token by its id. These tokens replace all
    earlier ones.
    """

    tokens: dict[str, list[bytes]]
    nodes: list[str] = []
    """The ids of the tokens that are keys of nodes."""
    expired: list[str] = []
    """The ids of the tokens whose open connections must end."""


class Admit(msgspec.Struct, array_like=True, tag=5):
    """Let the holder of a token connect to its driver on a node once, within a short time."""

    token: str
    """The id of the token."""
    target: bytes
    """The id by which the client names the socket at which the driver waits for it."""
    host: str
    port: int
    secret: str = ""
    """The token of another cluster, which the driver's job has made for itself and whose head is at
    `host` and `port`. It is "" if the driver belongs to a node of this cluster.
    """


# ---- from the gateway --------------------------------------------------------------------------


class Listening(msgspec.Struct, array_like=True, tag=10):
    """The gateway is ready: processes can connect to its gate, and it listens on this address."""

    host: str
    port: int
    fingerprint: str = ""
    """The SHA-256 of the gateway's certificate in hex; "" for a gateway without a certificate."""


class Unable(msgspec.Struct, array_like=True, tag=11):
    """The gateway cannot start, and ends. `reason` says what to change."""

    reason: str
    is_about_token: bool = False


class Pulled(msgspec.Struct, array_like=True, tag=12):
    """A transfer has ended: the file is in its place, or `reason` says why it is not.

    `size`: the received bytes. `seconds`: the time from the command to the end. `may_pass`: the
    transfer failed only because the nodes could not be reached, so another try may succeed.
    """

    name: str
    ok: bool
    reason: str
    size: int
    seconds: float
    may_pass: bool = False


class AuthFailed(msgspec.Struct, array_like=True, tag=13):
    """Since the last such message, `count` connections from this address failed to prove that they
    belong to the cluster.
    """

    address: str
    count: int


class Knocked(msgspec.Struct, array_like=True, tag=14):
    """A node of another protocol version lives. The ids of its processes begin with this prefix.
    The message is sent repeatedly.
    """

    prefix: bytes
    version: int
    host: str


class GivenUp(msgspec.Struct, array_like=True, tag=15):
    """The head has declared a node of another protocol version dead. When that node knocks again,
    the gateway reports this to it. A repeated message changes nothing.
    """

    prefix: bytes


_ToGateway = AddressBook | Pull | CancelPull | ReleaseFile | GivenUp | KnowTokens | Admit
_FromGateway = Listening | Unable | Pulled | AuthFailed | Knocked
GatewayMessage = _ToGateway | _FromGateway

_decoder = msgspec.msgpack.Decoder(list[GatewayMessage])


def decode_body(body: bytes | bytearray | memoryview) -> list[GatewayMessage]:
    """Return the messages of one frame's body. Raises ProtocolError for any other bytes."""
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"a frame that is not of the gateway's channel: {error}") from None
