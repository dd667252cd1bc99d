"""Reports members to the head: which of them run, how each has ended, and which array tasks of a
run have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from phalanx.model.exit_codes import NOT_STARTED
from phalanx.model.ids import MemberId
from phalanx.node.head_link import HeadLink
from phalanx.node.kept_members import AttemptOf, KeptMember
from phalanx.node.member import Member, Step
from phalanx.node.member_effects import CommandEnd
from phalanx.node.member_records import MemberRecords
from phalanx.node.member_runs import MemberRuns
from phalanx.node.usage import MemberUsage
from phalanx.protocol.bundle_messages import (
    MemberNews,
    MemberPrepares,
    MemberUsed,
    RunNews,
    StepEnded,
)

REMEMBERED = 10_000
"""The number of ended members that are remembered."""


class MemberReports:
    """Reports members, and remembers which attempts are over."""

    def __init__(
        self,
        head: HeadLink,
        clock: Callable[[], float],
        runs: MemberRuns,
        records: MemberRecords,
        report_health: Callable[[], None],
    ) -> None:
        """`report_health` sends the node's health to the head. It is called before a report that a
        member could not begin here.
        """
        self._head = head
        self._clock = clock
        self._runs = runs
        self._records = records
        self._report_health = report_health
        self._over: dict[MemberId, int] = {}
        """For each member: its last attempt that ended here or never began.

        The head may repeat the order for such an attempt before it knows of the end. The attempt
        must not begin again then.
        """

    def is_over(self, place: MemberId, attempt: int) -> bool:
        """Whether an attempt, or a later attempt of the same member, is over."""
        return attempt <= self._over.get(place, 0)

    def note_end(self, place: MemberId, attempt: int) -> None:
        """Remember that an attempt is over, because its order may be repeated."""
        self._over.pop(place, None)
        self._over[place] = attempt
        if len(self._over) > REMEMBERED:
            del self._over[next(iter(self._over))]

    # ---- members -------------------------------------------------------------------------------

    def running(self, member: Member) -> None:
        """Report that a member runs, or prepares its environment, unless it rests."""
        if member.rests:
            return
        if member.prepares:
            about = (*member.attempt, member.log, member.is_ready)
            self._head.notify(MemberPrepares(*about))
            return
        member.is_quiet = False
        self.run(member.place)
        ran_s = max(self._clock() - member.began_at, 0.0)
        self._head.notify(MemberNews(*member.attempt, log=member.log, ran_s=ran_s))

    def never_began(
        self, place: MemberId, attempt: int, reason: str, is_nodes_fault: bool = False
    ) -> None:
        """Report an attempt that did not begin. `is_nodes_fault`: whether the node was unhealthy,
        so that the member waits again.
        """
        self.note_end(place, attempt)
        self.stop_run(place, attempt)
        if is_nodes_fault:
            self._report_health()
        self._head.notify(
            MemberNews(*place, attempt, NOT_STARTED, reason, is_nodes_fault=is_nodes_fault)
        )

    def ended(self, member: Member) -> None:
        """Report how a member has ended. If the member was an array task of a run and has
        succeeded, the report may be delayed.
        """
        used = member.usage.total(self._clock())
        ended = [] if member.kept is None else [member.attempt]
        if member.is_evicted:
            self._tell(MemberUsed(*member.attempt, used), ended)
            return
        is_nodes_fault = member.is_nodes_fault
        if member.is_quiet and not (member.code or member.reason or is_nodes_fault):
            self._runs.ended(member.order, member.log, used, self._clock())
            return
        if member.code or is_nodes_fault:
            self.stop_run(member.place, member.order.attempt)
        self.run(member.place)
        if is_nodes_fault:
            self._report_health()
        news = MemberNews(
            *member.attempt,
            member.code,
            member.reason,
            "" if is_nodes_fault else member.log,
            used=used,
            is_nodes_fault=is_nodes_fault,
            signal=member.signal,
            is_parent_killed=member.is_parent_killed,
            is_unprepared=member.is_unprepared,
        )
        self._tell(news, ended)

    def ended_before(self, kept: KeptMember, end: CommandEnd, now: float) -> None:
        """Report that a member has ended that an earlier process of this node began. Its bundle
        belongs to a later attempt now.
        """
        self.note_end(kept.place, kept.order.attempt)
        used = MemberUsage(0.0, (), kept.began).total(now)
        code, reason = kept.code or end.code, kept.reason or end.reason
        news = MemberNews(
            *kept.attempt, code, reason, kept.log, used=used, signal=kept.signal or end.signal
        )
        self._tell(news, [kept.attempt])

    def step_ended(self, member: Member, step: Step, end: CommandEnd) -> None:
        """Report the end of a step that the head knows."""
        order, used = step.order, step.usage.total(self._clock())
        if order.step >= 0:
            # srun gives up its place as soon as it has the code of its program, which may be before
            # this process has heard of the program's end
            has_failed = bool(end.code or end.signal)
            is_cut = has_failed and (member.is_ending or member.is_through)
            about = (*member.attempt, order.step, order.task)
            self._head.notify(StepEnded(*about, end.code, is_cut, used, end.signal))

    # ---- runs of array tasks -------------------------------------------------------------------

    def run(self, place: MemberId) -> None:
        """Report the array tasks in a bundle that have succeeded and were not reported yet. Call
        this before other news of the bundle is reported.
        """
        self._send_run(self._runs.flushed(place, self._clock()))

    def stop_run(self, place: MemberId, attempt: int = 0) -> None:
        """Hand back to the head the array tasks in a bundle that have not begun.

        `attempt`: the number of the attempt that runs or ends in the bundle, if the head must
        decide which attempt follows it; otherwise 0.
        """
        self._runs.on_reported(place, attempt)
        self._send_run(self._runs.stopped(place, self._clock()))

    def due_runs(self, now: float) -> None:
        """If the delayed reports about array tasks that have succeeded are due, send them."""
        for news in self._runs.due(now):
            self._send_run(news)

    def _send_run(self, news: RunNews | None) -> None:
        if news is not None:
            self._tell(news, [(news.group, news.index, one.attempt) for one in news.ended])

    def _tell(self, news: MemberNews | MemberUsed | RunNews, ended: Sequence[AttemptOf]) -> None:
        """Report news to the head. Once the head has stored them, the records of the ended attempts
        are deleted.
        """
        forget = self._records.forgetting(ended)
        if forget is None:
            self._head.notify(news)
        else:
            self._head.notify(news, forget)
