"""After random events, the pages, the JSON of the commands and the store agree."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from html import unescape
from typing import Any

import httpx
import msgspec
import pytest
from tests.world.head import ask, make_head
from typer.testing import CliRunner

from phalanx.cli import reach
from phalanx.cli.typer_app import app
from phalanx.dashboard import watch as watching
from phalanx.dashboard.app import Dashboard
from phalanx.dashboard.login import Login, make_code
from phalanx.dashboard.watch import Watch
from phalanx.head.gangs.gang import Gang
from phalanx.head.gangs.member_states import HOLDING
from phalanx.head.jobs.job_rows import JobRow
from phalanx.head.state_store import StoredState, read_state
from phalanx.model.jobs import states as st
from phalanx.model.rows.cluster import current_nodes
from phalanx.protocol.requests.cluster import GetStatus
from phalanx.protocol.requests.jobs import GetMemberUse, ListElements, ReadJobLog
from phalanx.protocol.requests.node_use import GetNodeUse
from phalanx.protocol.requests.state import QueryState
from phalanx.runtime.daemons import visitor

from .histories import History
from .test_app import HOST, OWN, SECRET
from .world import Head as DrawnHead

SEEDS, STEPS = 3, 60
MORE_SEEDS, MORE_STEPS = 24, 120
LOOKED_AT = 6
"""The most jobs whose pages each comparison opens."""
EVERY = 10
"""The steps between two comparisons. In between, the page follows the changes."""


class Head(DrawnHead):
    """Answers the page's requests by the head of a `History`."""

    def __init__(self, world: History) -> None:
        super().__init__()
        self.world = world

    def ask(self, request: Any) -> Any:
        if isinstance(request, (GetMemberUse, GetNodeUse, ReadJobLog)):
            return super().ask(request)  # nodes of a world measure nothing and print nothing
        if isinstance(request, QueryState) and request.query.kind == "tasks":
            return super().ask(request)  # and no program answers for its tasks
        return ask(self.world.head, request)


class Seen:
    """A page that follows the cluster of a `History`, and commands that ask the same head."""

    def __init__(self, world: History, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        for name in ("SHARE", "COUNTED_S"):  # the page asks for everything at each look
            monkeypatch.setattr(watching, name, 0.0)
        monkeypatch.setattr(reach, "daemons_of", lambda *_: [("session", "daemon")])
        monkeypatch.setattr(visitor, "ask_daemon", lambda _s, _d, what, _t: ask(world.head, what))
        self.watch = Watch(Head(world).ask, wall=world.clock.wall)
        self.watch.viewers = 1
        dashboard = Dashboard(
            self.watch, Login(SECRET), address="a", cookie="c", may_act=True, now=lambda: 100.0
        )
        transport = httpx.ASGITransport(app=dashboard.app({"127.0.0.1"}))
        self.client = httpx.AsyncClient(transport=transport, base_url=HOST)

    async def sign_in(self) -> None:
        """Sign in as a viewer of the page."""
        code = make_code(SECRET, 100.0)
        assert (await self.client.post("/login", data={"code": code}, headers=OWN)).is_redirect

    async def look(self) -> None:
        """Let a second pass, and let the page ask the head for changes."""
        self.world.now += 1.0
        await self.watch._look()
        assert self.watch.trouble == ""

    async def page(self, path: str) -> Any:
        """Return the data of a page."""
        answer = await self.client.get(f"/api/v1{path}")
        assert answer.status_code == 200, (path, answer.text)
        return answer.json()["page"]

    async def all_jobs(self) -> tuple[dict[str, Any], dict[str, int]]:
        """Return all rows of the list of jobs, by name, and the number of jobs in each state."""
        found: dict[str, Any] = {}
        number = 1
        while True:
            page = await self.page(f"/jobs?page={number}")
            found |= {row["name"]: row for row in page["listed"]["rows"]}
            if number >= page["listed"]["pages"]:
                assert page["listed"]["matched"] == page["listed"]["total"] == len(found)
                return found, page["states"]
            number += 1

    async def html(self, path: str) -> str:
        """Return a page as its viewer gets it."""
        return (await self.client.get(path)).text

    def command(self, *words: str) -> Any:
        """Return the JSON that a command prints."""
        done = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
        assert done.exit_code == 0, (words, done.output)
        return json.loads(done.stdout)

    def stored(self) -> StoredState:
        """Return the state that the next head would read from the store."""
        return read_state(self.world.journal.storage)


def drawn(value: Any) -> Any:
    """Return the data with amounts rounded, because sums of the same parts may differ in their last
    digit.
    """
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: drawn(one) for key, one in value.items()}
    if isinstance(value, list):
        return [drawn(one) for one in value]
    return value


def differences(page: dict[str, Any], said: dict[str, Any]) -> list[Any]:
    """Return the fields in which two sets of rows differ, as (name, field, value on the page, other
    value).
    """
    found: list[Any] = sorted(page.keys() ^ said.keys())
    for name in page.keys() & said.keys():
        one, other = drawn(page[name]), drawn(said[name])
        fields = sorted(one.keys() | other.keys())
        found += [
            (name, field, one.get(field), other.get(field))
            for field in fields
            if one.get(field, ()) != other.get(field, ())
        ]
    return found


async def check(seen: Seen) -> None:
    """Check that the page, the commands and the store agree."""
    await seen.look()
    stored = seen.stored()
    jobs, states = await seen.all_jobs()
    listed = {row["name"]: row for row in seen.command("jobs", "--all")}
    assert differences(jobs, listed) == []
    records = {
        one.record.spec.name: one.record
        for row in stored.of_gangs["batch_jobs"]
        if (one := msgspec.msgpack.decode(row, type=JobRow)).record.spec.element is None
    }
    assert jobs.keys() == records.keys()
    for name, record in records.items():
        assert_is_record(jobs[name], record)
    assert states == dict(Counter(record.state for record in records.values()))
    await check_overview(seen, listed, states)
    await check_rows_of_html(seen, jobs)
    await check_nodes_and_queues(seen, stored)
    await check_plan_events_and_cycles(seen)
    await check_actors(seen)
    for name in seen.world.drawn.sample(sorted(jobs), min(len(jobs), LOOKED_AT)):
        await check_job(seen, name, jobs[name], records[name], stored)


def assert_is_record(row: Any, record: Any) -> None:
    """Check that a row agrees with the store's record."""
    spec = record.spec
    assert (row["queue"], row["user"], row["state"]) == (spec.queue, spec.user, record.state)
    assert (row["retries"], row["restarts"]) == (record.retries, record.run_count)
    assert (row["is_held"], row["finished"]) == (record.is_held, record.finished)
    assert (row["submitted"], row["started"]) == (record.submitted, record.started)
    if spec.array is None:
        counts = Counter(member.state for member in record.members)
        assert row["running"] == counts[st.RUNNING] + counts[st.TERMINATING]
        assert row["succeeded"] == counts[st.SUCCEEDED]
        assert row["failed"] == counts[st.FAILED]


async def check_overview(seen: Seen, listed: dict[str, Any], states: dict[str, int]) -> None:
    page = await seen.page("/")
    assert page["jobs"] == states
    rows = list(listed.values())
    by_queue = {one["name"]: (one["running"], one["waiting"]) for one in page["queues"]}
    assert by_queue == {
        queue: (count(rows, queue, st.RUNNING), count(rows, queue, st.PENDING))
        for queue in {one["queue"] for one in rows if one["state"] in (st.RUNNING, st.PENDING)}
    }
    for one in page["queues"]:
        waiting = [row for row in rows if row["queue"] == one["name"] and row["position"]]
        reasons = {row["reason"] or "not yet known" for row in waiting}
        assert sum(why["count"] for why in one["reasons"]) <= one["waiting"]
        held = {row["reason"] or "not yet known" for row in rows if row["state"] == st.PENDING}
        assert {why["words"] for why in one["reasons"]} <= reasons | held
    status = seen.command("status")
    told = ask(seen.world.head, GetStatus())
    assert told is not None
    shown = current_nodes(told.nodes)
    assert page["nodes"] == dict(Counter(row.state.lower() for row in shown))
    living = [row for row in status["nodes"] if row["state"] != "DEAD"]
    for one in page["gauges"]:
        total = sum(row["total"].get(one["name"], 0.0) for row in living)
        free = sum(row["available"].get(one["name"], 0.0) for row in living)
        assert drawn([one["total"], one["used"]]) == drawn([total, total - free])


def count(rows: list[Any], queue: str, state: str) -> int:
    return sum(row["queue"] == queue and row["state"] == state for row in rows)


async def check_rows_of_html(seen: Seen, jobs: dict[str, Any]) -> None:
    """Check that the HTML of the first page of jobs contains the words in its data."""
    html = await seen.html("/jobs")
    written = dict(re.findall(r'<tr id="job-default_2f_([^"]+)">(.*?)</tr>', html, re.DOTALL))
    assert len(written) == min(len(jobs), 50)
    for name, cells in written.items():
        text = unescape(re.sub(r"<[^>]+>", " ", cells))
        for word in (name, jobs[name]["state"], jobs[name]["queue"]):
            assert word in text.split()


async def check_nodes_and_queues(seen: Seen, stored: StoredState) -> None:
    gangs = [msgspec.msgpack.decode(row, type=Gang) for row in stored.of_gangs["gangs"]]
    holding = [m for gang in gangs for m in gang.members if m.state in HOLDING and m.node]
    shown = await seen.page("/nodes")
    page = {row["node_id"]: row for row in shown["listed"]["rows"]}
    listed = {row["node_id"]: row for row in seen.command("nodes")}
    assert shown["in_use"] == {name: row["used"] for name, row in listed.items() if row["used"]}
    for row in listed.values():
        del row["stranded"], row["used"]
    assert differences(page, listed) == []
    alive = {one.node_id: one for one in stored.nodes if one.state != "DEAD"}
    assert {name for name, row in page.items() if row["state"] != "DEAD"} == alive.keys()
    for name, record in alive.items():
        assert page[name]["state"] == record.state
        guests = (await seen.page(f"/nodes/{name}"))["guests"]
        assert {one["gang"]["group"]: one["members"] for one in guests} == Counter(
            gang.gang_id.hex() for gang in gangs for m in gang.members
            if m.state in HOLDING and m.node == name
        )  # fmt: skip
        here = [member.need for member in holding if member.node == name]
        for resource, total in record.totals.items():
            held = sum(need.get(resource, 0.0) for need in here)
            assert drawn(page[name]["available"].get(resource, 0.0)) == drawn(total - held)
    lines = {one["queue"]["name"]: one for one in (await seen.page("/queues"))["lines"]}
    rows = {row["name"]: row for row in seen.command("queue", "list")}
    del rows["root"]
    assert differences({name: one["queue"] for name, one in lines.items()}, rows) == []
    for name, line in lines.items():
        one = await seen.page(f"/queues/{name}")
        assert one["line"] == line
        mine = [m for g in gangs if g.queue == name for m in g.members if m.state in HOLDING]
        for resource in ("CPU", "GPU"):
            held = sum(member.need.get(resource, 0.0) for member in mine if member.node)
            assert drawn(line["queue"]["allocated"].get(resource, 0.0)) == drawn(held)


async def check_plan_events_and_cycles(seen: Seen) -> None:
    plan = (await seen.page("/plan"))["plan"]
    assert drawn(plan) == drawn(seen.command("plan"))
    cycles = (await seen.page("/decisions"))["cycles"]
    assert cycles[::-1] == seen.command("scheduler", "cycles", "-n", "1000")["cycles"]
    rows = (await seen.page("/events"))["listed"]["rows"]
    listed = CliRunner().invoke(app, ["events", "--json"], catch_exceptions=False).stdout
    newest = [json.loads(line) for line in listed.splitlines()][-len(rows) :][::-1]
    assert rows == [{key: value for key, value in one.items() if key != "format"} for one in newest]


async def check_actors(seen: Seen) -> None:
    """Check that the table of actors, all its pages, and the counts by class agree with the
    listing.
    """
    listing = seen.command("list", "actors", "--detail", "--limit", "1000")
    rows = {row["actor_id"]: row for row in listing["rows"]}
    assert len(rows) == listing["total"]
    page = await seen.page("/work")
    counted = Counter[str]()
    for one in page["actors"]:
        counted.update(one["states"])
    assert counted == Counter(row["state"] for row in rows.values())
    shown: dict[str, Any] = {}
    for number in range(1, page["each"]["listed"]["pages"] + 1):
        part = (await seen.page(f"/work?page={number}"))["each"]["listed"]
        assert part["matched"] == part["total"] == len(rows)
        shown |= {one["actor"]: one for one in part["rows"]}
    assert shown.keys() == rows.keys()
    for name, row in rows.items():
        one, cause = shown[name], row["death_cause"] or {"error_message": ""}
        assert (one["state"], one["node"], one["pid"], one["restarts"], bool(one["reason"])) == (
            row["state"], row["node_id"] or "", row["pid"], row["num_restarts"],
            bool(cause["error_message"]),
        )  # fmt: skip
    for state in ("living", "dead"):
        part = (await seen.page(f"/work?state={state}"))["each"]["listed"]
        chosen = [row for row in rows.values() if (row["state"] == "DEAD") == (state == "dead")]
        assert part["matched"] == len(chosen)


async def check_job(seen: Seen, name: str, row: Any, record: Any, stored: StoredState) -> None:
    page = await seen.page(f"/jobs/default/{name}")
    told = seen.command("job", name)
    assert differences({name: page["job"]}, {name: told}) == []
    assert told.items() >= {key: row[key] for key in ("state", "running", "failed")}.items()
    assert [(one["name"], one["state"], one["node"], one["exit_code"]) for one in told["members"]] \
        == [(one.name, one.state, one.node, one.exit_code) for one in record.members]  # fmt: skip
    assert page["is_over"] == (record.state in st.FINISHED)
    if row["state"] == st.PENDING and page["why"] is not None:
        assert page["why"]["position"] == row["position"]
    if row["array"]:
        listed = Counter[str]()
        for one in seen.command("jobs", name):
            listed[one["state"]] += one["elements"]
        assert page["array"]["states"] == dict(listed)
        assert sum(listed.values()) == row["replicas"]
        cells = Counter(one["state"] for one in page["array"]["cells"])
        assert cells == listed
        told_by_next = ask(make_head(lambda *_: None, stored=stored), ListElements(name))
        read = Counter[str]()
        for task in told_by_next or []:
            read[_in_store(task.state)] += task.elements
        said = Counter[str]()
        for state, number in listed.items():
            said[_in_store(state)] += number
        assert read == said


def _in_store(state: str) -> str:
    """Return the state that the store has for an array task. The store does not record which array
    task begins next, because the next head decides that anew.
    """
    return st.PENDING if state == st.WAITING else state


SLOW = (pytest.mark.slow, pytest.mark.timeout(600))
HISTORIES = [
    *(pytest.param(seed, STEPS, id=f"short-{seed}") for seed in range(SEEDS)),
    *(
        pytest.param(seed, MORE_STEPS, id=f"long-{seed}", marks=SLOW)
        for seed in range(SEEDS, MORE_SEEDS)
    ),
]


@pytest.mark.parametrize(("seed", "steps"), HISTORIES)
def test_page_commands_and_store_agree(
    seed: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = History(seed)
    seen = Seen(world, monkeypatch)

    async def live() -> None:
        await seen.sign_in()
        for step in range(steps):
            world.step()
            if step % EVERY == EVERY - 1:
                try:
                    await check(seen)
                except AssertionError as error:
                    error.add_note(f"seed {seed}, after {world.happened}")
                    raise
            elif step % 3 == 0:
                await seen.look()
        await seen.client.aclose()

    asyncio.run(live())
