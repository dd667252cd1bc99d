"""Pages about events."""

from __future__ import annotations

import pytest

from phalanx.dashboard.pages import events
from phalanx.dashboard.pages.lists import ROWS
from phalanx.model.jobs import states as st
from phalanx.model.rows.events import EventInfo
from phalanx.observe.events import details, user_of

from .test_app import run, served
from .world import EVENTS, EVIL, NOW, Head, description, event, job, node, snapshot


def numbers(words):
    return [one.number for one in events.events(snapshot(), words).listed.rows]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ({}, [8, 7, 6, 5, 4, 3, 2, 1]),
        ({"kind": "preempted"}, [5]),
        ({"kind": "no such kind", "since": "no such time"}, [8, 7, 6, 5, 4, 3, 2, 1]),
        ({"job": "default/runs"}, [5, 4, 3, 2]),
        ({"job": "next"}, [5]),
        ({"user": EVIL}, [6, 3, 2]),
        ({"node": node(1).node_id}, [5, 4, 3, 1]),
        ({"node": EVIL}, [8, 4]),
        ({"queue": "lab", "q": "PREEMPTED next"}, [5]),
        ({"since": "1h"}, [8, 7, 6, 5, 4, 3, 2, 1]),
        ({"q": "nothing of that kind"}, []),
        ({"page": "99"}, [8, 7, 6, 5, 4, 3, 2, 1]),
    ],
)
def test_events_are_filtered_newest_first(words, found):
    assert numbers(words) == found


def test_a_page_of_many_says_how_many_there_are():
    many = snapshot(
        events=[event(n, "submitted", job=f"default/j{n}") for n in range(2 * ROWS + 1)]
    )
    first = events.events(many, {}).listed
    assert (len(first.rows), first.matched, first.pages) == (ROWS, 101, 3)
    assert [one.number for one in events.events(many, {"page": "3"}).listed.rows] == [0]
    old = snapshot(events=[event(-5000, "submitted", job="default/a"), *EVENTS])
    assert events.events(old, {"since": "1h"}).listed.matched == len(EVENTS)


def test_the_command_that_prints_the_same_is_safe_in_a_shell():
    assert events.command({"kind": "placed", "q": "x"}) == "phalanx events --kind placed"
    assert events.command({"job": "a; rm -rf /"}) == "phalanx events --job 'a; rm -rf /'"


def test_a_job_tells_who_got_its_places_and_whose_it_got():
    steps = events.steps_of(snapshot(), description(job("runs", submitted=NOW - 60)))
    assert [(one.what, one.other) for one in steps] == [
        ("Pending", ""), ("preempted", "default/next"), ("placing", f"default/{EVIL}"),
        ("placed", ""),
    ]  # fmt: skip


@pytest.mark.parametrize(("state", "sign"), [(st.FAILED, "bad"), (st.COMPLETED, "done")])
def test_the_end_of_a_job_that_failed_is_marked_as_a_failure(state, sign):
    async def look():
        head = Head()
        head.snapshot = snapshot(events=[event(9, "ended", job="default/x", state=state)])
        async with served(head) as (client, _):
            page = (await client.get("/events")).text
            assert f'<span class="state {sign}">ended</span>' in page

    run(look())


def test_pages_link_to_who_took_and_change_while_they_are_open():
    async def look():
        head = Head()
        async with served(head) as (client, dashboard):
            text = (await client.get("/jobs/default/runs")).text
            assert 'href="/jobs/default/next"' in text and "for <a" in text
            assert "happened here" in (await client.get(f"/nodes/{node(1).node_id}")).text
            before = (await client.get("/events")).text
            assert "<code>phalanx events</code>" in before
            assert 'id="event-8"' in before and 'id="event-9"' not in before
            head.snapshot = snapshot(
                events=[*EVENTS, event(9, "ended", job="default/runs", state="Failed")]
            )
            await dashboard.watch._look()
            assert 'id="event-9"' in (await client.get("/events")).text

    run(look())


def test_the_user_of_an_event_without_an_owner_is_the_one_who_asked_for_it():
    made = EventInfo(number=1, at=NOW, kind="queue-made", queue="lab", by="ana")
    assert (user_of(made), details(made)) == ("ana", "")
    for_bo = EventInfo(number=2, at=NOW, kind="held", job="default/a", user="bo", by="ana")
    assert (user_of(for_bo), details(for_bo)) == ("bo", "requested by ana")
    of_gang = EventInfo(number=3, at=NOW, kind="preempted", name="g", by="default/b")
    assert user_of(of_gang) == ""

    async def look():
        head = Head()
        head.snapshot = snapshot(events=[made])
        async with served(head) as (client, _):
            assert 'href="/events?user=ana"' in (await client.get("/events")).text

    run(look())
