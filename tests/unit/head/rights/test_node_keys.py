"""Every message that a node with its own key may send: for each it is decided whether such a node
may send it.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

import msgspec
import pytest

from phalanx.head.node_messages import NodeMessages
from phalanx.head.rights.node_keys import OF_ITSELF, NodeKeys
from phalanx.model.ids import node_prefix, node_process_id
from phalanx.protocol.actor_messages import ActorHere, ActorLost
from phalanx.protocol.bundle_messages import BundleInventory
from phalanx.protocol.cluster_messages import ForwardedAsk, ProcessEnded, Via, ViewRow
from phalanx.protocol.frames import encode_frame
from phalanx.protocol.framing import HEADER_BYTES
from phalanx.protocol.membership_messages import Join, Leave, Reported
from phalanx.protocol.requests.cluster import NewDriverJob
from phalanx.protocol.requests.groups import WatchGroup
from phalanx.protocol.requests.queues import ListQueues
from phalanx.protocol.requests.view import GetViewChanges

NODE = "ab" * 28
MINE, OTHER = node_prefix(NODE), b"other!"
KEY = "0" * 16


class Keys:
    """Stands for the head's tokens. There is one key, which is that of the node m2."""

    def node_of(self, token_id: str) -> str | None:
        return "m2" if token_id == KEY else None

    def has_node_key(self, name: str) -> bool:
        return name == "m2"


class Nodes:
    """Stands for the head's nodes."""

    def __init__(self, known: dict[bytes, str]) -> None:
        self.known = known

    def of_prefix(self, prefix: bytes) -> Any:
        class Record:
            hostname = self.known.get(prefix)

        return Record if prefix in self.known else None


def keys(known: dict[bytes, str] | None = None) -> NodeKeys:
    return NodeKeys(Keys(), Nodes(known or {}))  # type: ignore[arg-type]


def join(name: str, prefix: bytes = MINE) -> Join:
    row = ViewRow(NODE, prefix, "127.0.0.1", 7, "ALIVE", {}, {}, {})
    here = {b"actor": ActorHere(b"", 0)}
    return Join(row, name, 0, here, BundleInventory([], {}), given_up=[OTHER])


def ask(kind: int, origin: bytes, principal: Any = None) -> ForwardedAsk:
    return ForwardedAsk(1, origin, kind, msgspec.Raw(b"\x90"), principal=principal)


def reported(*messages: Any) -> Reported:
    return Reported(1, encode_frame(list(messages))[HEADER_BYTES:])


ITSELF = node_process_id(MINE)
TAKEN = {
    "join": join("m2"),
    "leave": Leave(""),
    "its view": ask(GetViewChanges.kind, ITSELF),
    "its groups": ask(WatchGroup.kind, ITSELF),
    "its process": ProcessEnded(MINE + b"p" * 10, False),
    "its actor": ActorLost(b"actor", MINE + b"w" * 10, ""),
    "for sure": reported(Leave("")),
}
REFUSED = {
    "another name": join("m3"),
    "another prefix": join("m2", OTHER),
    "a person's": ask(ListQueues.kind, b""),
    "a driver's": ask(ListQueues.kind, MINE + b"d" * 10),
    "in its own name": ask(ListQueues.kind, ITSELF),
    "a new driver": ask(NewDriverJob.kind, ITSELF),
    "another node's": ask(GetViewChanges.kind, node_process_id(OTHER)),
    "for another": Via(OTHER + b"x" * 10, b""),
    "another's process": ProcessEnded(OTHER + b"p" * 10, True),
    "another's actor": ActorLost(b"actor", OTHER + b"w" * 10, ""),
    "hidden": reported(Leave(""), ask(ListQueues.kind, b"")),
    "hidden join": reported(join("m2")),
    "hidden twice": reported(reported(Via(OTHER + b"x" * 10, b""))),
    "unreadable": Reported(1, b"\x91\xc0"),
    "unknown": object(),
}


@pytest.mark.parametrize("what", TAKEN)
def test_what_a_node_says_of_itself_is_taken(what: str) -> None:
    assert keys().refusal(KEY, MINE, TAKEN[what]) is None


@pytest.mark.parametrize("what", REFUSED)
def test_everything_else_is_refused(what: str) -> None:
    refusal = keys().refusal(KEY, MINE, REFUSED[what])
    assert refusal is not None and "joins as m2 and reports, and nothing else" in str(refusal)


@pytest.mark.parametrize("what", TAKEN)
def test_a_revoked_key_says_nothing(what: str) -> None:
    assert "revoked" in str(keys().refusal("1" * 16, MINE, TAKEN[what]))


def test_a_join_says_nothing_of_others() -> None:
    message = join("m2")
    assert keys().refusal(KEY, MINE, message) is None
    assert message.given_up == [] and message.actors == {}


def test_the_clusters_token_says_everything_but_a_name_with_a_key() -> None:
    for message in (*TAKEN.values(), *REFUSED.values()):
        is_taken_name = isinstance(message, Join) and message.hostname == "m2"
        assert (keys().refusal("", MINE, message) is not None) == is_taken_name
    assert join("m2").given_up == [OTHER]


def test_a_prefix_is_its_own_when_it_is_new_or_was_its_own() -> None:
    assert keys().is_own_prefix(KEY, MINE)
    assert keys({MINE: "m2"}).is_own_prefix(KEY, MINE)
    assert not keys({MINE: "first"}).is_own_prefix(KEY, MINE)
    assert not keys().is_own_prefix("1" * 16, MINE)


DECIDED_BY_CONTENT = {"Join", "ForwardedAsk", "Reported", "ActorLost", "ProcessEnded"}
"""Messages that may be about other nodes. Whether they are allowed depends on their content."""
OF_PROGRAMS = {"Probe", "Via", "JobKnown", "EnvironmentKnown"}
"""Messages that only a node with the cluster's token may send: they are about drivers, or pass on
what programs say.
"""


def test_each_message_that_the_head_takes_is_decided_about() -> None:
    tree = ast.parse(textwrap.dedent(inspect.getsource(NodeMessages.take_in)))
    known = {
        node.cls.id
        for node in ast.walk(tree)
        if isinstance(node, ast.MatchClass) and isinstance(node.cls, ast.Name)
    }
    accepted = {one.__name__ for one in OF_ITSELF}
    assert known == accepted | DECIDED_BY_CONTENT | OF_PROGRAMS
