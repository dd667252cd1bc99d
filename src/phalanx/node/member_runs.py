"""Runs of array tasks on this node. The array tasks of a run use one bundle (their place), one
after another.

This module is pure. The array tasks of a run are members like all others. This module keeps those
that have not begun, and those that have succeeded and were not reported to the head yet.
"""

from __future__ import annotations

import itertools
from collections import deque

import msgspec

from phalanx.model.attempts import Used
from phalanx.model.ids import MemberId
from phalanx.protocol.bundle_messages import ExtendRun, RunEnd, RunNews, RunTask, StartMember

REPORT_S = 0.1
"""Seconds for which the ends of successful tasks are collected before they are reported, if the run
has more tasks.
"""
SHOWN_S = 0.5
"""Seconds after which the head gets a report that a task of a run is running."""
HELD_S = 1.0
"""Seconds that a task may run before the tasks that wait behind it are returned to the head."""
REMEMBERED = 10_000
"""The number of places whose runs are remembered."""


class _End(msgspec.Struct):
    attempt: int
    used: Used
    at: float


class _Run(msgspec.Struct, kw_only=True, eq=False):
    last: int
    """The last attempt number that the head has given to a task in this place."""
    waiting: deque[StartMember]
    ended: list[_End] = []
    log: str = ""
    """The log of the first task in `ended`."""
    last_reported: int = 0
    """The number of the last attempt that did not begin, failed, or had to end. The head decides
    which array task follows. Array tasks that the head ordered before it knew of this do not begin.
    """


class MemberRuns:
    """The runs of all places of this node, by (group, index)."""

    def __init__(self) -> None:
        self._runs: dict[MemberId, _Run] = {}
        self._unreported: dict[MemberId, None] = {}
        """The places with ends that were collected and are not reported yet."""
        self._report_at: float | None = None
        """The time when the collected ends must be reported; None if no ends are collected."""

    def extend(self, order: ExtendRun) -> MemberId:
        """Add the new tasks of an order to the run of their place. Returns the place."""
        key = (order.like.group, order.like.index)
        run = self._of(key)
        for number, task in enumerate(order.tasks, order.first):
            if number > run.last:
                run.last = number
                run.waiting.append(_order(order.like, number, task))
        return key

    def began_before(self, key: MemberId, attempt: int) -> None:
        """Note that an earlier process of this node began a task. The head may repeat orders that
        the process did not answer.
        """
        run = self._of(key)
        run.last = max(run.last, attempt)

    def is_outdated(self, order: ExtendRun) -> bool:
        """Whether an order is out of date: the head gave it before it got a report after which the
        head, and not this node, decides about the next task.
        """
        run = self._runs.get((order.like.group, order.like.index))
        return run is not None and order.behind < run.last_reported

    def on_reported(self, key: MemberId, attempt: int) -> None:
        """Note that this task did not begin, failed or has to end, so that the head decides about
        the next task in the place. With `attempt` 0, do nothing.
        """
        if attempt:  # the first order for the place may arrive later
            run = self._of(key)
            run.last_reported = max(run.last_reported, attempt)

    def _of(self, key: MemberId) -> _Run:
        run = self._runs.get(key)
        if run is None:
            run = self._runs[key] = _Run(last=0, waiting=deque())
            self._forget_old()
        return run

    def _forget_old(self) -> None:
        if len(self._runs) > REMEMBERED:
            idle = (key for key, run in self._runs.items() if not (run.waiting or run.ended))
            for key in list(itertools.islice(idle, 1)):
                del self._runs[key]

    def next(self, key: MemberId) -> StartMember | None:
        """Remove and return the order for the task that begins now; None if no task waits."""
        run = self._runs.get(key)
        return run.waiting.popleft() if run is not None and run.waiting else None

    def waits(self, key: MemberId) -> bool:
        """Whether a task waits in a place."""
        run = self._runs.get(key)
        return run is not None and bool(run.waiting)

    def put_back(self, order: StartMember) -> None:
        """Put back a task that could not begin, before the other waiting tasks."""
        self._runs[order.group, order.index].waiting.appendleft(order)

    def ended(self, order: StartMember, log: str, used: Used, now: float) -> None:
        """Note that a task has succeeded. The next report (`flushed`) tells the head."""
        run = self._runs[order.group, order.index]
        if not run.ended:
            run.log = log
        run.ended.append(_End(order.attempt, used, now))
        self._unreported[order.group, order.index] = None
        if self._report_at is None:
            self._report_at = now + REPORT_S

    def flushed(self, key: MemberId, now: float) -> RunNews | None:
        """Return the report of the array tasks that have succeeded in a place and were not reported
        yet; None if there are none.
        """
        run = self._runs.get(key)
        if run is None or not run.ended:
            return None
        ended = [RunEnd(one.attempt, one.used, max(now - one.at, 0.0)) for one in run.ended]
        news = RunNews(*key, ended, run.log)
        run.ended = []
        del self._unreported[key]
        return news

    def stopped(self, key: MemberId, now: float) -> RunNews | None:
        """Return the report of a run whose waiting tasks will not begin; None if there is nothing
        to report.
        """
        run = self._runs.get(key)
        news = self.flushed(key, now)
        if run is not None and run.waiting:
            returned = run.waiting[0].attempt, run.waiting[-1].attempt
            run.waiting.clear()
            news = news or RunNews(*key, [])
            news.returned = returned
        return news

    def due(self, now: float) -> list[RunNews]:
        """Return the reports of all places with collected ends. Returns no reports before the
        oldest of these ends is REPORT_S seconds old.
        """
        if self._report_at is None or now < self._report_at:
            return []
        self._report_at = None
        reports = (self.flushed(key, now) for key in list(self._unreported))
        return [news for news in reports if news is not None]


def _order(like: StartMember, number: int, task: RunTask) -> StartMember:
    """Return the order for one task of a run."""
    commands = [
        msgspec.structs.replace(one, argv=task.argv, variables={**one.variables, **task.variables})
        for one in like.commands[:1]
    ]
    return msgspec.structs.replace(like, attempt=number, job=task.job, commands=commands)
