"""The objects that the head makes for a request are freed when the answer is sent. Otherwise the
garbage collector would free them later, and would walk over all of them after bursts of requests.
"""

from __future__ import annotations

import gc
from typing import Any

import pytest
from tests.principals import OWNER

from phalanx.model.garbage import uncollected
from phalanx.model.ids import GroupId
from phalanx.protocol.cluster_messages import ForwardedAsk
from phalanx.protocol.requests.groups import CreateGroup, RemoveGroup
from phalanx.protocol.requests.jobs import ListJobs
from phalanx.protocol.requests.request import Asker, Request, encode_request

from .test_full_store import DRIVER, PREFIX, Place


@pytest.fixture
def place() -> Place:
    made = Place()
    made.joins()
    return made


def group(number: int) -> GroupId:
    return GroupId(DRIVER[:12] + number.to_bytes(4, "big"))


@pytest.mark.parametrize(
    "request_",
    [
        ListJobs(),
        CreateGroup(group(1), [{"CPU": 1.0}], "PACK", "one", False, []),
        RemoveGroup(group(2)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_an_answered_request_leaves_nothing_to_the_collector(place, request_) -> None:
    def ask(token: int, request: Request[Any]) -> None:
        body = encode_request(request)
        place.control.on_message(
            PREFIX, ForwardedAsk(token, DRIVER, request.kind, body, principal=OWNER)
        )

    ask(1, ListJobs())
    gc.collect()
    with uncollected():
        for token in range(2, 5):
            ask(token, request_)
        askers = [one for one in gc.get_objects() if isinstance(one, Asker)]
    assert {reply.token for reply in place.sent if hasattr(reply, "token")} >= {2, 3, 4}
    assert not askers
