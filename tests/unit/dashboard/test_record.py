"""A recorded run as a file: a written record can be shown again, and a file that is not a record is
refused.
"""

from __future__ import annotations

import asyncio
import json
import zlib

import msgspec
import pytest

from phalanx.dashboard import record
from phalanx.dashboard.record import (
    FORMAT,
    Content,
    NotRecordedError,
    Title,
    read,
    recorded,
    write,
)
from phalanx.dashboard.watch import Watch
from phalanx.errors import StoreFullError
from phalanx.model.jobs import states as st
from phalanx.observe.events import EventQuery
from phalanx.observe.series import Series
from phalanx.protocol.requests.events import ListEvents
from phalanx.protocol.requests.gangs import Explain
from phalanx.protocol.requests.jobs import CommandJob, GetJob

from .test_app import PAGES, harmful, run, served
from .world import CYCLES, EVENTS, EVIL, NOW, Head, job, snapshot

TITLE = Title(format=FORMAT, cluster=EVIL, at=NOW, version="1")


@pytest.fixture
def file(tmp_path):
    """Return a record of the made-up cluster."""
    series = {("used", "GPU"): Series()}
    for ago in range(3000, 0, -10):
        series["used", "GPU"].add(NOW - ago, 2.0)
    path = str(tmp_path / "run.journal")
    write(path, TITLE, recorded(Head().ask, snapshot(), series, {}))
    return path


def test_every_page_is_shown_from_the_file_and_nothing_can_be_done(file):
    found = read(file)

    async def look():
        async with served(found, may_act=False) as (client, dashboard):
            dashboard.watch.series = found.series
            for path in PAGES:
                if "add_nodes" in path or ("user=a" in path and "history" in path):
                    continue  # asked with words that nobody recorded
                answer = await client.get(path)
                assert answer.status_code == 200, (path, answer.text)
                assert not harmful(answer.text)
            assert "Why it waits" in (await client.get("/jobs/default/next")).text
            assert (await client.get("/history?user=a")).status_code == 409
            refused = await client.post(
                "/jobs/default/runs/cancel", headers={"sec-fetch-site": "same-origin"}
            )
            assert refused.status_code == 403
            version = dashboard.watch.snapshot.version
            await dashboard.watch._look()
            now = dashboard.watch.snapshot
            assert now.version > version and len(now.jobs) == len(snapshot().jobs)
            assert [one.number for one in now.events] == [one.number for one in EVENTS]

    run(look())


def test_numbers_over_time_are_kept_as_they_are_shown(file):
    (key,) = read(file).series
    series = read(file).series[key]
    assert {value for _, value in series.since(NOW - 900, NOW)} == {2.0}
    assert len(series.since(NOW - 900, NOW)) > 80
    assert len(series.since(NOW - 86_400, NOW)) > 8


def test_what_was_not_recorded_is_said(file):
    found = read(file)
    assert [one.kind for one in found.ask(ListEvents(EventQuery(kinds=["preempted"]))).events]
    assert found.ask(ListEvents(EventQuery(after=EVENTS[-1].number))).events == []
    for request in (GetJob("no such"), Explain("no such"), CommandJob("runs", "cancel")):
        with pytest.raises(NotRecordedError, match="no answer to"):
            found.ask(request)


def test_of_very_many_jobs_the_youngest_are_whole(monkeypatch):
    monkeypatch.setattr(record, "MAX_JOBS", 3)
    monkeypatch.setattr(record, "MAX_EXPLAINED", 2)
    rows = [job(f"j{n}", st.PENDING, submitted=NOW - n) for n in range(9)]
    drawn, asked = Head(), []
    known: record.KnownJobs = {}
    drawn.snapshot = snapshot(jobs=rows)

    def ask(request):
        asked.append(request)
        return drawn.ask(request)

    recorded(ask, drawn.snapshot, {}, known)
    assert [one.name for one in asked if isinstance(one, GetJob)] == [
        "default/j0", "default/j1", "default/j2",
    ]  # fmt: skip
    assert [one.name for one in asked if isinstance(one, Explain)] == ["default/j0", "default/j1"]
    asked.clear()
    rows[1] = job("j1", st.RUNNING, submitted=NOW - 1)
    drawn.snapshot = snapshot(jobs=rows)
    content = recorded(ask, drawn.snapshot, {}, known)
    assert [one.name for one in asked if isinstance(one, GetJob)] == ["default/j1"]
    assert sum(one.kind == GetJob.kind for one in content.answers) == 3


def test_a_record_that_unpacks_to_more_than_is_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "MAX_BYTES", 1000)
    path = tmp_path / "x"
    path.write_bytes(head() + b"\n" + zlib.compress(b"\0" * 100_000))
    with pytest.raises(ValueError, match="too large"):
        read(str(path))


def test_what_a_head_does_not_answer_is_left_out(tmp_path):
    class Poor(Head):
        def ask(self, request):
            if isinstance(request, Explain | GetJob):
                raise StoreFullError("full")
            return super().ask(request)

    path = str(tmp_path / "x")
    write(path, TITLE, recorded(Poor().ask, snapshot(), {}, {}))
    with pytest.raises(NotRecordedError):
        read(path).ask(GetJob("default/runs"))


def head(**fields):
    return json.dumps(
        {"format": FORMAT, "cluster": "c", "at": 1.0, "version": "1"} | fields
    ).encode()


GOOD = zlib.compress(msgspec.msgpack.encode(Content(answers=[], numbers=[])))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is not a record"),
        (b"\x00\xff" * 5000, "is not a record"),
        (b"{}\n", "is not a record"),
        (head(format="phalanx-run/9") + b"\n", "only phalanx-run/1 can be read"),
        (head() + b"\n", "cut off"),
        (head() + b"\n" + b"garbage", "cannot be read"),
        (head() + b"\n" + GOOD[:-9], "cut off"),
        (head() + b"\n" + zlib.compress(b"\xc1"), "cannot be read"),
        (head() + b"\n" + zlib.compress(b"\x91" * 100_000), "cannot be read"),
    ],
)
def test_what_is_no_record_is_refused(tmp_path, data, why):
    path = tmp_path / "x"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=why):
        read(str(path))


def test_an_answer_that_cannot_be_read_any_more_harms_its_page_alone(file):
    found = read(file)
    found._answers = {
        key: b"\xc1" if key[0] == GetJob.kind else value for key, value in found._answers.items()
    }
    with pytest.raises(NotRecordedError, match="written by version 1"):
        found.ask(GetJob("default/runs"))
    watch = Watch(found.ask, wall=lambda: NOW)
    asyncio.run(watch._look())
    assert watch.snapshot is not None and not watch.trouble
    assert CYCLES


def test_a_file_is_put_in_place_whole_and_for_its_user_alone(file, tmp_path):
    assert (tmp_path / "run.journal").stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["run.journal"]
    with pytest.raises(OSError, match="No such file"):
        write(str(tmp_path / "none" / "x"), TITLE, Content(answers=[], numbers=[]))


def test_of_a_head_that_is_gone_what_was_seen_last_is_kept(tmp_path):
    content = recorded(Head().ask, snapshot(jobs=[], events=[]), {}, {})
    path = str(tmp_path / "x")
    write(path, TITLE, record.brought_up_to(content, snapshot(), {}))
    watch = Watch(read(path).ask, wall=lambda: NOW)
    asyncio.run(watch._look())
    assert watch.snapshot is not None and not watch.trouble
    assert len(watch.snapshot.jobs) == len(snapshot().jobs)
    assert len(watch.snapshot.status.nodes) == 3
    assert [one.number for one in watch.snapshot.events] == [one.number for one in EVENTS]
