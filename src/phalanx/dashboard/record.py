"""A run as a file: what a head answered to all that pages ask, to be looked at when it is gone.

A line of JSON says what the file is; then one msgpack: each request with its answer, as both would
travel, and numbers over time. Who reads it asks the file as it would ask a head.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from phalanx.dashboard.pages import history, objects, work
from phalanx.dashboard.watch import Ask, SessionView
from phalanx.errors import PhalanxError
from phalanx.model.jobs import states as st
from phalanx.model.rows.work import JobInfo
from phalanx.observe.events import MAX_EVENTS, EventPage, EventQuery, is_meant
from phalanx.observe.series import Series
from phalanx.protocol.requests.accounting import GetUsage, ListAttempts
from phalanx.protocol.requests.cluster import GetHealth, GetStatus
from phalanx.protocol.requests.events import ListEvents
from phalanx.protocol.requests.gangs import Explain, GetRules, ListCycles, ShowPlan, TakeSnapshot
from phalanx.protocol.requests.health import ListDevices
from phalanx.protocol.requests.jobs import GetJob
from phalanx.protocol.requests.news import ClusterNews, GetNews, ListWaiting, Since
from phalanx.protocol.requests.request import Request, encode_request, read_result
from phalanx.protocol.requests.series import GetSeries, SeriesNews
from phalanx.protocol.requests.state import QueryState

R = TypeVar("R")

FORMAT = "phalanx-run/1"
MAX_JOBS = 2_000
"""Of so many jobs, the youngest, all is recorded that their pages show; of the others their row."""
MAX_EXPLAINED = 50
"""Of so many that wait it is recorded why in full; of the others in few words."""
MAX_BYTES = 1 << 30
"""A larger record is not read."""
SPANS_S = (900.0, 86_400.0, 2_592_000.0)
"""Numbers over time are recorded as they are shown: for a quarter of an hour, a day, and thirty."""
_encode = msgspec.msgpack.Encoder().encode


class NotRecordedError(PhalanxError):
    """A record does not have what was asked for."""


class Answer(msgspec.Struct, array_like=True, frozen=True):
    """A request, by its kind and fields, and what was answered."""

    kind: int
    fields: bytes
    result: bytes


class Numbers(msgspec.Struct, array_like=True, frozen=True):
    """A number over time: what is counted, of what, and (seconds since the epoch, value) by rising
    time, the later the finer."""

    what: str
    of: str
    points: list[tuple[float, float]]


class Content(msgspec.Struct, array_like=True, kw_only=True):
    """All of a record."""

    answers: list[Answer]
    numbers: list[Numbers]


class Title(msgspec.Struct, frozen=True, kw_only=True):
    """What a record is of. `at`: seconds since the epoch."""

    format: str
    cluster: str
    at: float
    version: str


# ---- writing ---------------------------------------------------------------------------------


def asked_of(picture: SessionView) -> Iterator[Request[Any]]:
    """All that pages ask beside what they follow, and beside the jobs."""
    yield GetStatus(is_brief=True)
    yield ListWaiting()
    yield ListEvents(EventQuery(limit=MAX_EVENTS))
    yield from (GetHealth(), GetRules(), ShowPlan(), TakeSnapshot(True), ListCycles())
    yield ListDevices()
    for query in (work.TASKS, work.ACTORS, objects.OBJECTS, objects.STORES, objects.SITES):
        yield QueryState(query)
    for period in history.DAYS:
        asked = history.asked({"period": period})
        yield GetUsage(asked.usage(picture.at))
        yield ListAttempts(asked.attempts(picture.at))
    waiting = [job for job in _youngest(picture) if job.state == st.PENDING or job.pending]
    for job in waiting[:MAX_EXPLAINED]:
        yield Explain(f"{job.namespace}/{job.name}")


def brought_up_to(
    content: Content, picture: SessionView, series: dict[tuple[str, str], Series]
) -> Content:
    """The same with the rows, events and numbers that were seen last of a head that is gone."""
    everything = ListEvents(EventQuery(limit=MAX_EVENTS))
    newest = picture.events[-1].number if picture.events else 0
    page = EventPage(events=picture.events, newest=newest, kept=len(picture.events))
    seen = [
        _answer(GetNews(Since()), _news_of(picture)),
        _answer(everything, page),
        _answer(GetStatus(is_brief=True), msgspec.structs.replace(picture.status, nodes=[])),
    ]
    return Content(answers=[*content.answers, *seen], numbers=_numbers(picture, series))


def _youngest(picture: SessionView) -> list[JobInfo]:
    return sorted(picture.jobs, key=lambda job: -job.submitted)[:MAX_JOBS]


KnownJobs = dict[str, tuple[JobInfo, Answer]]
"""Of jobs, by NAMESPACE/NAME, the row and what was answered when it was that."""


def recorded(
    ask: Ask, picture: SessionView, series: dict[tuple[str, str], Series], known: KnownJobs
) -> Content:
    """Ask a head for everything; what it does not answer, as it is gone or cannot, is left out.
    `known`: jobs that were asked for before are asked for again where their rows are others."""
    answers = [_answer(GetNews(Since()), _news_of(picture))]
    jobs = {f"{job.namespace}/{job.name}": job for job in _youngest(picture)}
    for gone in known.keys() - jobs.keys():
        del known[gone]
    for name, job in jobs.items():
        if name in known and known[name][0] == job:
            continue
        request = GetJob(name)
        with contextlib.suppress(PhalanxError, ValueError, TimeoutError):
            known[name] = (job, _answer(request, ask(request)))
    answers += [answer for _, answer in known.values()]
    for question in asked_of(picture):
        with contextlib.suppress(PhalanxError, ValueError, TimeoutError):
            result = ask(question)
            answers.append(_answer(question, result))
            if isinstance(question, ListCycles) and question.number is None:
                for cycle in result:
                    one = ListCycles(cycle.number)
                    with contextlib.suppress(PhalanxError):
                        answers.append(_answer(one, ask(one)))
    return Content(answers=answers, numbers=_numbers(picture, series))


def _numbers(picture: SessionView, series: dict[tuple[str, str], Series]) -> list[Numbers]:
    return [Numbers(what, of, _points(one, picture.at)) for (what, of), one in series.items()]


def _answer(request: Request[Any], result: Any) -> Answer:
    return Answer(request.kind, bytes(encode_request(request)), _encode(result))


def _news_of(picture: SessionView) -> ClusterNews:
    return ClusterNews(
        since=Since(head=picture.at), is_new=True, is_more=False, nodes=picture.status.nodes,
        jobs=picture.jobs, gangs=picture.gangs, gone_nodes=[], gone_jobs=[], gone_gangs=[],
        queues=picture.queues,
    )  # fmt: skip


def _points(series: Series, now: float) -> list[tuple[float, float]]:
    """All that is known of a number: the coarse first, where nothing finer reaches back."""
    found: list[tuple[float, float]] = []
    for span_s in reversed(SPANS_S):
        points = series.since(now - span_s, now)
        begins = points[0].at if points else now
        found = [point for point in found if point[0] < begins]
        found += [(point.at, point.mean) for point in points]
    return found


def write(path: str, title: Title, content: Content) -> None:
    """Put a record in place of the file, whole or not at all; for this user alone. Raises
    OSError."""
    draft = f"{path}.{os.getpid()}.draft"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(title) + b"\n")
            file.write(zlib.compress(_encode(content), 1))
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise


# ---- reading ---------------------------------------------------------------------------------


class Record:
    """A record, which answers as the head did."""

    def __init__(self, title: Title, content: Content) -> None:
        self.title = title
        self._answers = {(one.kind, one.fields): one.result for one in content.answers}
        self.series: dict[tuple[str, str], Series] = {}
        for numbers in content.numbers:
            made = self.series[numbers.what, numbers.of] = Series()
            for at, value in numbers.points:
                made.add(at, value)

    def ask(self, request: Request[Any]) -> Any:
        """See `watch.Ask`. Raises NotRecordedError for what is not in it."""
        if isinstance(request, GetNews) and request.since.head:
            return self._no_news()
        if isinstance(request, GetSeries):  # they are in `series`
            return SeriesNews(self.title.at, [])
        if isinstance(request, ListEvents):
            return self._events(request.query)
        return self._found(request)

    def _found(self, request: Request[R]) -> R:
        result = self._answers.get((request.kind, bytes(encode_request(request))))
        if result is None:
            what = type(request).__name__
            raise NotRecordedError(f"The record has no answer to {what}, or not with these words.")
        try:
            return read_result(request, msgspec.Raw(result), None)
        except msgspec.MsgspecError as error:
            raise NotRecordedError(
                f"The record was written by version {self.title.version}, whose answer to "
                f"{type(request).__name__} cannot be read here: {error}"
            ) from None

    def _no_news(self) -> ClusterNews:
        whole = self._found(GetNews(Since()))
        return msgspec.structs.replace(whole, is_new=False, nodes=[], jobs=[], gangs=[])

    def _events(self, query: EventQuery) -> EventPage:
        whole = self._found(ListEvents(EventQuery(limit=MAX_EVENTS)))
        found = [one for one in whole.events if is_meant(one, query)]
        return msgspec.structs.replace(whole, events=found[-query.limit :])


def read(path: str) -> Record:
    """The record in a file. Raises ValueError for a file that is none, and OSError."""
    with open(path, "rb") as file:
        line = file.readline(4096)
        try:
            title = msgspec.json.decode(line, type=Title)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise ValueError(f"{path} is no record of a run: `--record` writes them") from None
        if title.format != FORMAT:
            raise ValueError(f"{path} is a {title.format[:40]}, and {FORMAT} is read here")
        packed = file.read(MAX_BYTES + 1)
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(packed, MAX_BYTES)
        if not unpacker.eof:
            raise ValueError("it is cut off, or too large")
        return Record(title, msgspec.msgpack.decode(data, type=Content))
    except (zlib.error, msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
