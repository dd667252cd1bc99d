"""Lists the requests about queues, gangs and jobs, and the object that answers each."""

from __future__ import annotations

from typing import Protocol

from phalanx.head.accounting.requests import AccountingRequests
from phalanx.head.gangs.cycle_log import CycleLog
from phalanx.head.gangs.explaining import Explanations
from phalanx.head.gangs.news import News
from phalanx.head.gangs.requests import GangRequests
from phalanx.head.gangs.rules import Rules
from phalanx.head.jobs.logs import Logs
from phalanx.head.jobs.requests import JobRequests
from phalanx.head.jobs.signals import Signals
from phalanx.head.jobs.steps import Steps
from phalanx.head.queues.user_limits import UserLimitsControl
from phalanx.head.reservations.control import ReservationControl
from phalanx.head.shares.control import SharesControl
from phalanx.head.time_series import TimeSeries
from phalanx.protocol.requests.gangs import ListCycles, ShowPlan, TakeSnapshot
from phalanx.protocol.requests.jobs import GetMemberUse, ReadJobLog
from phalanx.protocol.requests.news import GetNews
from phalanx.protocol.requests.request import Entry
from phalanx.protocol.requests.series import GetSeries
from phalanx.protocol.requests.steps import AttachMember, BeginStep, RunStep, SignalJob


class Answering(Protocol):
    """The objects of a gang scheduler that answer requests."""

    job_requests: JobRequests
    gang_requests: GangRequests
    calendar: ReservationControl
    rules: Rules
    shares: SharesControl
    user_limits: UserLimitsControl
    explanations: Explanations
    steps: Steps
    logs: Logs
    news: News
    numbers: TimeSeries
    cycle_log: CycleLog


def entries(parts: Answering, signals: Signals, accounting: AccountingRequests) -> list[Entry]:
    """Return the handler of each request about queues, gangs and jobs."""
    explain, steps = parts.explanations, parts.steps
    return [
        *parts.job_requests.entries(),
        *parts.gang_requests.entries(),
        *parts.calendar.entries(),
        *parts.rules.entries(),
        *parts.shares.entries(),
        *parts.user_limits.entries(),
        *accounting.entries(),
        ReadJobLog.handled_by(parts.logs.read),
        GetMemberUse.handled_by(parts.logs.use),
        BeginStep.handled_by(steps.begin),
        RunStep.handled_by(steps.run),
        AttachMember.handled_by(steps.attach),
        SignalJob.handled_by(signals.send),
        GetNews.handled_by(parts.news.answer),
        GetSeries.handled_by(parts.numbers.answer),
        ListCycles.handled_by(lambda _, request: parts.cycle_log.rows(request.number)),
        ShowPlan.handled_by(lambda _, request: explain.plan()),
        TakeSnapshot.handled_by(lambda _, request: explain.snapshot(request.has_past_runs)),
    ]
