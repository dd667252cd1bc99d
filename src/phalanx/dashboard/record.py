"""A recorded run: a file with the head's answers to all questions of the pages. The file has a line
of JSON with its title, then compressed msgpack. The msgpack contains numbers over time, and each
request with its answer, encoded as for the network. A reader sends requests to the file as it would
to a head.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from phalanx.dashboard.pages import actors, history, objects, work
from phalanx.dashboard.watch import Ask, ClusterSnapshot
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
from phalanx.protocol.requests.node_use import ListNodesInUse
from phalanx.protocol.requests.request import Request, encode_request, read_result
from phalanx.protocol.requests.series import GetSeries, SeriesNews
from phalanx.protocol.requests.state import QueryState

R = TypeVar("R")

FORMAT = "phalanx-run/1"
MAX_JOBS = 2_000
"""The number of newest jobs that are recorded with all data of their pages. Of other jobs, only the
rows are recorded.
"""
MAX_EXPLAINED = 50
"""The number of waiting jobs whose full explanations are recorded. Other jobs have a short reason.
"""
MAX_BYTES = 1 << 30
"""The size in bytes above which a record is not read."""
SPANS_S = (900.0, 86_400.0, 2_592_000.0)
"""The recorded spans of numbers over time, in seconds: 15 minutes, a day and 30 days, as on the
pages.
"""
_encode = msgspec.msgpack.Encoder().encode


class NotRecordedError(PhalanxError):
    """Raised when a record has no answer to a request."""


class Answer(msgspec.Struct, array_like=True, frozen=True):
    """A request (its kind and encoded fields) and its encoded answer."""

    kind: int
    fields: bytes
    result: bytes


class Numbers(msgspec.Struct, array_like=True, frozen=True):
    """A number over time: the quantity, the thing to which it belongs, and the points.

    `points`: (seconds since the epoch, value), oldest first. Later points are closer together.
    """

    what: str
    of: str
    points: list[tuple[float, float]]


class Content(msgspec.Struct, array_like=True, kw_only=True):
    """The content of a record."""

    answers: list[Answer]
    numbers: list[Numbers]


class Title(msgspec.Struct, frozen=True, kw_only=True):
    """The title of a record. `at`: seconds since the epoch."""

    format: str
    cluster: str
    at: float
    version: str


# ---- writing ---------------------------------------------------------------------------------


def asked_of(snapshot: ClusterSnapshot) -> Iterator[Request[Any]]:
    """Yield the questions whose answers a record contains, except the question for changes and the
    descriptions of single jobs.
    """
    yield GetStatus(is_brief=True)
    yield ListWaiting()
    yield ListEvents(EventQuery(limit=MAX_EVENTS))
    yield from (GetHealth(), GetRules(), ShowPlan(), TakeSnapshot(True), ListCycles())
    yield from (ListDevices(), ListNodesInUse())
    yield from (QueryState(one) for one in (*work.QUERIES, *actors.QUERIES, *objects.QUERIES))
    for period in history.DAYS:
        asked = history.asked({"period": period})
        yield GetUsage(asked.usage(snapshot.at))
        yield ListAttempts(asked.attempts(snapshot.at))
    waiting = [job for job in _youngest(snapshot) if job.state == st.PENDING or job.pending]
    for job in waiting[:MAX_EXPLAINED]:
        yield Explain(f"{job.namespace}/{job.name}")


def brought_up_to(
    content: Content, snapshot: ClusterSnapshot, series: dict[tuple[str, str], Series]
) -> Content:
    """Return a record's content with the last rows, events and numbers of the head added."""
    everything = ListEvents(EventQuery(limit=MAX_EVENTS))
    newest = snapshot.events[-1].number if snapshot.events else 0
    page = EventPage(events=snapshot.events, newest=newest, kept=len(snapshot.events))
    seen = [
        _answer(GetNews(Since()), _news_of(snapshot)),
        _answer(everything, page),
        _answer(GetStatus(is_brief=True), msgspec.structs.replace(snapshot.status, nodes=[])),
    ]
    return Content(answers=[*content.answers, *seen], numbers=_numbers(snapshot, series))


def _youngest(snapshot: ClusterSnapshot) -> list[JobInfo]:
    return sorted(snapshot.jobs, key=lambda job: -job.submitted)[:MAX_JOBS]


KnownJobs = dict[str, tuple[JobInfo, Answer]]
"""The recorded jobs by NAMESPACE/NAME: the row of each job, and the head's answer to `GetJob` when
the job had this row.
"""


def recorded(
    ask: Ask, snapshot: ClusterSnapshot, series: dict[tuple[str, str], Series], known: KnownJobs
) -> Content:
    """Ask a head all questions, and return a record's content.

    Questions without an answer are left out. `known`: the recorded jobs, which this function
    updates. The head is asked about a known job again only if the job's row has changed.
    """
    answers = [_answer(GetNews(Since()), _news_of(snapshot))]
    jobs = {f"{job.namespace}/{job.name}": job for job in _youngest(snapshot)}
    for gone in known.keys() - jobs.keys():
        del known[gone]
    for name, job in jobs.items():
        if name in known and known[name][0] == job:
            continue
        request = GetJob(name)
        with contextlib.suppress(PhalanxError, ValueError, TimeoutError):
            known[name] = (job, _answer(request, ask(request)))
    answers += [answer for _, answer in known.values()]
    for question in asked_of(snapshot):
        with contextlib.suppress(PhalanxError, ValueError, TimeoutError):
            result = ask(question)
            answers.append(_answer(question, result))
            if isinstance(question, ListCycles) and question.number is None:
                for cycle in result:
                    one = ListCycles(cycle.number)
                    with contextlib.suppress(PhalanxError):
                        answers.append(_answer(one, ask(one)))
    return Content(answers=answers, numbers=_numbers(snapshot, series))


def _numbers(snapshot: ClusterSnapshot, series: dict[tuple[str, str], Series]) -> list[Numbers]:
    return [Numbers(what, of, _points(one, snapshot.at)) for (what, of), one in series.items()]


def _answer(request: Request[Any], result: Any) -> Answer:
    return Answer(request.kind, bytes(encode_request(request)), _encode(result))


def _news_of(snapshot: ClusterSnapshot) -> ClusterNews:
    return ClusterNews(
        since=Since(head=snapshot.at), is_new=True, is_more=False, nodes=snapshot.status.nodes,
        jobs=snapshot.jobs, gangs=snapshot.gangs, gone_nodes=[], gone_jobs=[], gone_gangs=[],
        queues=snapshot.queues,
    )  # fmt: skip


def _points(series: Series, now: float) -> list[tuple[float, float]]:
    """Return all points of a number. Coarse points are returned only for times before the first
    fine point.
    """
    found: list[tuple[float, float]] = []
    for span_s in reversed(SPANS_S):
        points = series.since(now - span_s, now)
        begins = points[0].at if points else now
        found = [point for point in found if point[0] < begins]
        found += [(point.at, point.mean) for point in points]
    return found


def write(path: str, title: Title, content: Content) -> None:
    """Replace the file by a record in one step. Only this user can read the file. Raises
    OSError.
    """
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
    """A record that was read from a file. It answers requests with the head's recorded answers."""

    def __init__(self, title: Title, content: Content) -> None:
        self.title = title
        self._answers = {(one.kind, one.fields): one.result for one in content.answers}
        self.series: dict[tuple[str, str], Series] = {}
        for numbers in content.numbers:
            made = self.series[numbers.what, numbers.of] = Series()
            for at, value in numbers.points:
                made.add(at, value)

    def ask(self, request: Request[Any]) -> Any:
        """Return the recorded answer to a request. Raises NotRecordedError for a request without an
        answer.
        """
        if isinstance(request, GetNews) and request.since.head:
            return self._no_news()
        if isinstance(request, GetSeries):  # `series` already has the numbers
            return SeriesNews(self.title.at, [])
        if isinstance(request, ListEvents):
            return self._events(request.query)
        return self._found(request)

    def _found(self, request: Request[R]) -> R:
        result = self._answers.get((request.kind, bytes(encode_request(request))))
        if result is None:
            what = type(request).__name__
            raise NotRecordedError(f"The record has no answer to this {what}.")
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
    """Read a record from a file. Raises OSError, and ValueError for a file that is not a record."""
    with open(path, "rb") as file:
        line = file.readline(4096)
        try:
            title = msgspec.json.decode(line, type=Title)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise ValueError(
                f"{path} is not a record of a run; `phalanx dashboard --record` writes one"
            ) from None
        if title.format != FORMAT:
            raise ValueError(f"{path} has format {title.format[:40]}; only {FORMAT} can be read")
        packed = file.read(MAX_BYTES + 1)
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(packed, MAX_BYTES)
        if not unpacker.eof:
            raise ValueError("it is cut off, or too large")
        return Record(title, msgspec.msgpack.decode(data, type=Content))
    except (zlib.error, msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
