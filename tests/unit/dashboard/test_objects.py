"""The page of objects. Objects whose origin is not recorded are counted separately, with advice on
how to record it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from phalanx.dashboard.pages.objects import SITES
from phalanx.observe.state.query import StateAnswer, StatePart
from phalanx.protocol.requests.state import QueryState

from .test_app import served
from .world import GIB, Head


class Counting(Head):
    """A head that knows where in their code programs have made objects."""

    def __init__(self, *places: str | None) -> None:
        super().__init__()
        self.places = places

    def ask(self, request: Any) -> Any:
        if isinstance(request, QueryState) and request.query == SITES:
            counts: Any = [([place], 3, GIB) for place in self.places]
            return StateAnswer(StatePart([], 9, 9, counts), [])
        return super().ask(request)


@pytest.mark.parametrize(
    ("places", "shown", "unplaced"),
    [
        (("disabled", "a.py:3", None), ["a.py:3"], 6),
        (("a.py:3", "b.py:7"), ["a.py:3", "b.py:7"], 0),
        ((), [], 0),
    ],
)
def test_the_page_says_how_to_record_places(places, shown, unplaced):
    async def look():
        async with served(Counting(*places)) as (client, _):
            page = (await client.get("/api/v1/objects")).json()["page"]
            return page, (await client.get("/objects")).text

    page, html = asyncio.run(look())
    assert [one["call_site"] for one in page["sites"]] == shown
    assert page["unplaced"]["references"] == unplaced
    assert ("PHALANX_RECORD_CALL_SITES=1" in html) == bool(unplaced)
    assert ("No program refers to an object" in html) == (not places)
