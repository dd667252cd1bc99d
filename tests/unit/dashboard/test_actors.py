"""The table of actors, and what the page of a task says about why the task waits."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from typing import Any

import pytest

from phalanx.dashboard.pages import actors
from phalanx.dashboard.pages.actors import ACTORS as ALL
from phalanx.dashboard.pages.actors import DRIVERS as PROGRAMS
from phalanx.dashboard.pages.lists import ROWS
from phalanx.observe.state.query import StateAnswer, StatePart

from .test_app import served
from .world import NOW, WHY, Head, actor, task

NAMES = {f"{1:056x}": "gpu-1"}


def listed(*rows: dict[str, Any], matched: int = 0, **words: str) -> actors.ActorList:
    """Return the table of these actors."""
    part = StatePart(list(rows), max(matched, len(rows)), max(matched, len(rows)))
    drivers = StateAnswer(
        StatePart([{"job_id": "01000000", "entrypoint": "python a.py"}], 1, 1), []
    )
    return actors.actors(StateAnswer(part, []), drivers, NAMES, NOW, words)


def ids(table: actors.ActorList) -> list[int]:
    return [int(one.actor, 16) for one in table.listed.rows]


def html(head: Head, path: str) -> str:
    """Return a page as text without tags."""

    async def look() -> str:
        async with served(head) as (client, _):
            answer = await client.get(path)
            assert answer.status_code == 200, answer.text
            return str(answer.text)

    return unescape(re.sub(r"<[^>]+>", " ", asyncio.run(look())))


def test_the_living_come_first_and_then_those_that_died_last():
    died = [
        actor(n, state="DEAD", end_time_ms=int(1000 * (NOW - ago))) for n, ago in ((5, 50), (6, 5))
    ]
    waits = actor(4, state="PENDING_CREATION", start_time_ms=None)
    again = actor(3, state="RESTARTING", start_time_ms=None)
    assert ids(listed(*died, waits, again, actor(1))) == [1, 3, 4, 6, 5]


def test_a_line_says_where_since_when_and_whose():
    [one] = listed(actor(7, num_restarts=2)).listed.rows
    assert (one.node_name, one.pid, one.restarts, one.up_s) == ("gpu-1", 47, 2, 90.0)
    assert one.program == "python a.py"
    [other] = listed(actor(7, job_id="02000000")).listed.rows
    assert other.program == "job 02000000"


def test_a_dead_actor_says_why_and_how_long_it_lived():
    cause = {"error_message": f"node {1:056x} is lost"}
    row = actor(7, state="DEAD", death_cause=cause, end_time_ms=int(1000 * (NOW - 30)))
    [one] = listed(row).listed.rows
    assert (one.reason, one.up_s, one.ended) == ("node gpu-1 is lost", 60.0, NOW - 30)
    assert not one.waits
    [unknown] = listed(actor(7, state="DEAD", start_time_ms=None)).listed.rows
    assert (unknown.reason, unknown.up_s) == ("", None)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ({}, [1, 2]),
        ({"state": "dead"}, [2]),
        ({"state": "living"}, [1]),
        ({"state": "odd"}, [1, 2]),
        ({"q": "KEEPER gpu-1"}, [1]),
        ({"q": "a.py memory"}, [2]),
        ({"q": "nothing"}, []),
        ({"sort": "-restarts"}, [2, 1]),
        ({"sort": "uptime"}, [2, 1]),
    ],
)
def test_an_address_chooses_actors(words, found):
    cause = {"error_message": "its memory was full"}
    dead = actor(2, state="DEAD", death_cause=cause, num_restarts=1, start_time_ms=None)
    table = listed(actor(1, name="keeper"), dead, **words)
    assert ids(table) == found
    assert table.listed.total == 2


@pytest.mark.parametrize(
    ("state", "filters"),
    [
        ("", []),
        ("odd", []),
        ("dead", [("state", "=", "DEAD")]),
        ("living", [("state", "!=", "DEAD")]),
    ],
)
def test_the_head_is_asked_for_the_chosen_state(state, filters):
    """The page must not filter only the first thousand actors: if more than a thousand are alive,
    none of these is dead.
    """
    assert actors.query({"state": state}).filters == filters


def test_many_actors_are_shown_in_pages_that_keep_the_range_of_the_stream():
    head = Head()
    head.actors = [actor(n) for n in range(actors.MOST + 20)]
    text = html(head, "/work?range=1h")
    assert "1 to 50 of 1000 actors, of 1020 in all" in re.sub(r"\s+", " ", text)
    assert "20 more are not listed" in text

    async def look() -> str:
        async with served(head) as (client, _):
            return str((await client.get("/work?range=1h&page=2&q=trainer")).text)

    page = asyncio.run(look())
    assert page.count('<tr id="each-') == ROWS + 1  # the head is a row
    assert 'href="/work?q=trainer&amp;range=1h&amp;sort=state&amp;page=3#every-actor"' in page
    assert '<input type="hidden" name="range" value="1h">' in page


def test_a_page_without_answers_about_actors_has_no_table():
    class Old(Head):
        def ask(self, request: Any) -> Any:
            if getattr(request, "query", None) in (ALL, PROGRAMS):
                from phalanx.dashboard.record import NotRecordedError

                raise NotRecordedError("an older record")
            return super().ask(request)

    assert "Actors by class" in html(Old(), "/work")
    assert "Up for" not in html(Old(), "/work")


@pytest.mark.parametrize("kind", ["ACTOR_CREATION_TASK", "ACTOR_TASK"])
def test_what_waits_for_its_actor_says_why_the_actor_waits(kind):
    head = Head()
    fields = {"state": "PENDING_NODE_ASSIGNMENT", "actor_id": "ab" * 16, "type": kind}
    head.tasks = [task(9, **fields)]
    text = html(head, f"/work/{9:048x}")
    assert "Why it waits" in text
    assert WHY.main in text
    assert f"phalanx explain --actor {'ab' * 16}" in text


def test_a_task_that_waits_says_what_tells_why():
    head = Head()
    head.tasks = [task(9, state="PENDING_NODE_ASSIGNMENT"), task(8)]
    assert "phalanx.explain(ref)" in html(head, f"/work/{9:048x}")
    assert "phalanx.explain(ref)" not in html(head, f"/work/{8:048x}")
