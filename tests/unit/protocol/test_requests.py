"""Every request has a class, a kind (its name in messages), a type of reply, and exactly one
handler.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.world.clock import ManualClock
from tests.world.head import make_head

import phalanx
import phalanx.protocol.requests as room
from phalanx.errors import ProtocolError
from phalanx.protocol.requests.cluster import DrainNode, NewDriverJob
from phalanx.protocol.requests.request import (
    LATER,
    Asker,
    Request,
    RequestHandlers,
    Role,
    decode_request,
    encode_request,
    read_result,
    reply_type,
)

MODULES = [
    importlib.import_module(f"{room.__name__}.{one.name}")
    for one in pkgutil.iter_modules(room.__path__)
]
TYPES = sorted(Request.__subclasses__(), key=lambda one: one.kind)
SOURCES = Path(phalanx.__file__).parent
ONLY_FOR_VISITORS = {"RegisterDriver", "EnterDriver"}
FOR_VISITORS = {
    *ONLY_FOR_VISITORS,
    *("Cordon", "Uncordon"),
    *("DrainNode", "ChangeTotals", "GetStatus", "QueryState"),
    *("ListGangs", "Explain", "TakeSnapshot", "ShowPlan", "GetNews", "GetSeries", "ListWaiting"),
    "GetMetrics",
    *("CreateQueue", "UpdateQueue", "OpenQueue", "CloseQueue", "DeleteQueue", "ListQueues"),
    *("ApplyManifests", "CommandJob", "ResizeJob", "UpdateJob", "DeleteJob", "ListJobs", "GetJob"),
    "ListJobColumns",
    *("ExplainActor", "ListActors", "ListGroups"),
    *("ListElements", "ListFlows", "ListCrons", "ListHyperNodes", "ReadJobLog", "GetMemberUse"),
    *("GetNodeUse", "ListNodesInUse"),
    *("PutPackage", "ReadPackage"),
    *("BeginStep", "RunStep", "SignalJob"),
    *("AttachMember", "UndrainNode", "Reserve", "DeleteReservation", "ListReservations"),
    "DeclarePools",
    *("GetRules", "SetRules", "GetShares", "SetShares"),
    *("SetLicense", "ListLicenses", "ListAttempts", "GetUsage"),
    *("AskRight", "ListAudit", "ListRoles", "SetRole"),
    *("SetLimits", "ListLimits", "CreateToken", "RotateToken", "RevokeToken", "ListTokens"),
    *("ReadProcessLog", "ListDevices", "ListEvents", "ListCycles", "GetHealth"),
    *("ListNodes", "GetClusterResources", "GetAvailableResources"),
}
"""The requests that commands may send. Rights restrict them further (`head/rights`)."""
FOR_NODES = {"NewDriverJob", "GetViewChanges", "WatchGroup"}


def module_of(request_type):
    return request_type.__module__.rpartition(".")[2]


def test_kinds_are_given_once() -> None:
    assert len({one.kind for one in TYPES}) == len(TYPES)
    assert all(0 < one.kind < 128 for one in TYPES), "one byte on the wire"


@pytest.mark.parametrize("request_type", TYPES, ids=lambda one: one.__name__)
def test_a_request_says_what_it_means_and_what_it_is_answered_with(request_type) -> None:
    assert request_type.__doc__ and request_type.__doc__ != Request.__doc__
    msgspec.msgpack.Decoder(request_type)
    msgspec.msgpack.Decoder(reply_type(request_type))


def test_who_may_ask_what() -> None:
    named = {role: {one.__name__ for one in TYPES if role in one.asked_by} for role in Role}
    assert named[Role.VISITOR] == FOR_VISITORS
    assert named[Role.NODE] == FOR_NODES
    assert named[Role.PROCESS] == {o.__name__ for o in TYPES} - FOR_NODES - ONLY_FOR_VISITORS


def entries(path):
    """Return the types for which a module declares handlers by `X.handled_by(...)`."""
    tree = ast.parse((SOURCES / path).read_text())
    calls = (one.func for one in ast.walk(tree) if isinstance(one, ast.Call))
    marked = (one for one in calls if isinstance(one, ast.Attribute) and one.attr == "handled_by")
    return [one.value.id for one in marked if isinstance(one.value, ast.Name)]


def test_the_head_answers_what_is_asked_of_it() -> None:
    head = make_head(lambda prefix, message: None, ManualClock(0.0), is_alone=True)
    answered = [*head.handlers.types, *head.gang_scheduler.handlers.types]
    asked = [one for one in TYPES if module_of(one) not in ("node", "ray")]
    assert sorted(answered, key=lambda one: one.kind) == asked


def test_a_node_answers_what_is_asked_of_it() -> None:
    asked = [one.__name__ for one in TYPES if module_of(one) == "node"]
    assert sorted(entries("node/own_requests.py")) == sorted(asked)


def test_the_scheduler_on_ray_answers_what_is_asked_of_it() -> None:
    asked = [one.__name__ for one in TYPES if module_of(one) == "ray"]
    paths = ("adapters/ray/scheduler/batch_requests.py", "adapters/ray/scheduler/requests.py")
    answered = [name for path in paths for name in entries(path)]
    assert sorted(answered) == sorted([*asked, "Explain"]), "it knows more of why something waits"


def test_handlers_take_and_give_what_their_requests_say() -> None:
    """mypy checks this if handlers are functions; this test checks the handlers at run time."""
    generic: Any = Asker
    head = make_head(lambda prefix, message: None, ManualClock(0.0), is_alone=True)
    for request_type, handler in head.handlers.types.items():
        names = vars(importlib.import_module(handler.__module__))
        hints = typing.get_type_hints(handler, names)
        assert hints["request"] is request_type
        assert hints["asker"] == generic[reply_type(request_type)]


class Echo(Request[list[int]]):
    """A request that exists only in this test."""

    kind: typing.ClassVar[int] = 1000

    numbers: list[int]


def asked(handler, request=None, role=Role.PROCESS, body=None, kind=None):
    """Return the handler's answer to an asker in this role."""
    replies: list[Any] = []
    request = request or Echo([1, 2])
    handlers = RequestHandlers("the test", Echo.handled_by(handler))
    asker: Asker[Any] = Asker(role, b"me", lambda *reply: replies.append(reply))
    handlers.answer(kind or request.kind, body or encode_request(request), asker)
    (reply,) = replies
    return read_result(request, *reply)


def test_a_request_reaches_its_handler_and_its_answer_who_asked() -> None:
    assert asked(lambda asker, request: request.numbers[::-1]) == [2, 1]

    def later(asker, request):
        asker.reply([*request.numbers, 3])
        return LATER

    assert asked(later) == [1, 2, 3]


def test_what_a_handler_raises_is_raised_where_it_was_asked() -> None:
    def refuse(asker, request) -> typing.NoReturn:
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing"):
        asked(refuse)


def test_a_request_of_no_kind_one_with_other_fields_and_one_not_for_the_asker_are_refused() -> None:
    def handler(asker, request) -> typing.NoReturn:
        raise AssertionError("it was let through")

    with pytest.raises(ValueError, match="the test knows no request of kind 999"):
        asked(handler, kind=999)
    with pytest.raises(ProtocolError, match="Echo has other fields than these: Expected `int`"):
        asked(handler, body=msgspec.Raw(msgspec.msgpack.encode([["x"]])))
    for role in (Role.VISITOR, Role.NODE):
        with pytest.raises(ValueError, match="Echo may be asked only by drivers and workers"):
            asked(handler, role=role)


def test_an_answer_that_nobody_waits_for_is_not_sent() -> None:
    asker: Asker[int] = Asker(Role.PROCESS, b"me", None)
    asker.reply(1)
    asker.fail(ValueError())


def test_requests_travel_as_the_array_of_their_fields() -> None:
    request = DrainNode("ab", "it is old", "ann@desk", 5.0)
    body = encode_request(request)
    assert msgspec.msgpack.decode(body) == ["ab", "it is old", "ann@desk", 5.0]
    assert decode_request(DrainNode, body) == request
    assert msgspec.msgpack.decode(encode_request(NewDriverJob())) == []
