"""Tracks the running steps of jobs, and records each step once it has ended.

A running step is a row of the store, so that a restarted head still knows the step. A task of a
step ends once, even if its node reports the end several times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from phalanx.errors import JobCommandError
from phalanx.head.gangs.gang import Gang
from phalanx.head.state_store import StateStore
from phalanx.model import attempts as at
from phalanx.model.ids import GangId, GroupId
from phalanx.model.jobs import states as st
from phalanx.model.steps import Step, StepRow
from phalanx.observe.accounting.questions import AttemptQuery, is_step_meant
from phalanx.protocol.bundle_messages import StepEnded

TABLE = "steps"
_NUMBER_BYTES = 4
"""The key of a step's row is the id of the step's gang, followed by the step's number in this
number of bytes.
"""
PATIENCE_S = 120.0
"""Seconds for which a step stays open after its last task has ended, because it may begin another
task. After that time, the client that started the step counts as gone.
"""


class OpenStep(msgspec.Struct, kw_only=True, eq=False):
    """A step that has not ended."""

    key: bytes
    step: Step
    begun: int = 0
    """The number of tasks that have been requested so far."""
    running: dict[int, int] = {}
    """The running tasks, each with the index of its member in the gang."""
    attempts: dict[int, int] = {}
    """The attempt of each member with tasks of the step."""
    node_ids: list[str] = []
    """The nodes where tasks of the step were begun."""
    is_cut: bool = False
    """Whether a task of the step was ended because its member ended."""
    last: float
    """The time when the step's last task ended or, if none has ended, when the step began."""


class StepUsage:
    """The running steps of all jobs, and the usage that was recorded for each of them so far."""

    def __init__(
        self,
        state_store: StateStore,
        write: Callable[[bytes, StepRow], None],
        host_of: Callable[[str], str],
        steady: Callable[[], float],
    ) -> None:
        """`write` takes the record of a step that has ended. `host_of` returns the host name of a
        node by its id. `steady` returns the time of a steady clock in seconds.
        """
        self._state_store = state_store
        self._write = write
        self._host_of = host_of
        self._steady = steady
        self._open: dict[bytes, OpenStep] = {}
        self._touched: dict[bytes, float] = {}
        """The time, on the steady clock, at which each step without a running task last changed."""

    # ---- life of a step ------------------------------------------------------------------------

    def begin(self, gang: Gang, step: Step) -> None:
        """Open a step of a gang. Its tasks begin next."""
        key = _key(gang.gang_id, step.number)
        self._keep(OpenStep(key=key, step=step, last=step.started))

    def task(self, gang: Gang, index: int, number: int, cpus: float) -> int:
        """Begin one more task of a step, with this many CPUs, in the member at this index. Returns
        the task's number. Raises JobCommandError if the step is over.
        """
        one = self._open.get(_key(gang.gang_id, number))
        if one is None or one.begun >= one.step.tasks:
            raise JobCommandError(f"step {gang.job}.{number} is over, or has all its tasks")
        place, step = gang.members[index], one.step
        if one.attempts.get(index) != place.attempt:
            one.attempts[index] = place.attempt
            new = place.node not in one.node_ids
            one.node_ids += [place.node] * new
            nodes = (*step.nodes, *[self._host_of(place.node)] * new)
            one.step = msgspec.structs.replace(step, nodes=nodes, cpus=step.cpus + cpus)
        task, one.begun = one.begun, one.begun + 1
        one.running[task] = index
        self._keep(one)
        return task

    def refused(self, group: GangId, number: int, task: int, now: float) -> None:
        """End a task that its node refused to start."""
        one = self._open.get(_key(group, number))
        if one is not None and task in one.running:
            self._task_over(one, task, now)

    def ended(self, message: StepEnded, now: float) -> None:
        """End a task that its node reports as ended. A repeated report changes nothing, nor does a
        report about a step that is over.
        """
        one = self._open.get(_key(message.group, message.step))
        if one is None or message.task not in one.running:
            return
        one.step = one.step.with_task(message.code, message.used, message.signal)
        one.is_cut |= message.is_cut
        self._task_over(one, message.task, now)

    def member_over(self, group: GangId, index: int, attempt: int, state: str, now: float) -> None:
        """End a step's tasks in a member whose attempt has ended, because no more reports about
        these tasks will come. `state`: the state to record for the tasks if something ended the
        member; "" if the member ended on its own.
        """
        for one in self._of(group):
            left = [task for task, place in one.running.items() if place == index]
            if left and one.attempts.get(index) == attempt:
                one.is_cut = True
                for task in left:
                    self._task_over(one, task, now, state)

    def gang_over(self, group: GangId, now: float) -> None:
        """Close all steps of a gang that is over."""
        for one in self._of(group):
            one.is_cut = True
            self._close(one, now, "")

    def clock_stepped(self, step_s: float) -> None:
        """Shift the recorded times after the clock was stepped by this many seconds, so that
        durations stay the same.
        """
        for one in list(self._open.values()):
            one.step = msgspec.structs.replace(one.step, started=one.step.started + step_s)
            one.last += step_s
            self._state_store.keep(TABLE, one.key, one)

    def tick(self) -> None:
        """Close the steps that no longer expect another task."""
        now = self._steady()
        for key, since in list(self._touched.items()):
            if now - since >= PATIENCE_S:
                one = self._open[key]
                one.is_cut = True
                self._close(one, one.last, "")

    def _task_over(self, one: OpenStep, task: int, now: float, state: str = "") -> None:
        del one.running[task]
        one.last = max(now, one.step.started)
        if one.running or one.begun < one.step.tasks:
            self._keep(one)
        else:
            self._close(one, one.last, state)

    def _close(self, one: OpenStep, now: float, state: str) -> None:
        del self._open[one.key]
        self._touched.pop(one.key, None)
        step = one.step
        if not state and one.is_cut:
            state = st.TERMINATED
        elif not state:
            state = st.FAILED if step.exit_code != 0 else at.MEMBER_COMPLETED
        ended = max(now, step.started)
        self._write(
            one.key,
            StepRow(key=one.key, step=msgspec.structs.replace(step, state=state, ended=ended)),
        )
        self._state_store.keep(TABLE, one.key, None)

    def _keep(self, one: OpenStep) -> None:
        self._open[one.key] = one
        self._touched.pop(one.key, None)
        if not one.running:
            self._touched[one.key] = self._steady()
        self._state_store.keep(TABLE, one.key, one)

    # ---- questions -----------------------------------------------------------------------------

    def running_steps(self, query: AttemptQuery) -> list[Step]:
        """Return the running steps that match a query, the latest start first."""
        found = [one.step for one in self._open.values() if is_step_meant(one.step, query)]
        return sorted(found, key=lambda step: step.started, reverse=True)

    def _of(self, group: GangId) -> list[OpenStep]:
        return [one for key, one in self._open.items() if key.startswith(group)]

    def restore(self, values: Iterable[bytes], gangs: Mapping[GroupId, Gang], now: float) -> None:
        """Restore the steps that an earlier head stored. Steps whose gangs no longer exist count as
        ended.
        """
        for one in map(msgspec.msgpack.Decoder(OpenStep).decode, values):
            self._keep(one)
        for gang_id in {_gang_of(one.key) for one in self._open.values()} - gangs.keys():
            self.gang_over(gang_id, now)


def _key(group: GangId, number: int) -> bytes:
    return group + (number & 0xFFFFFFFF).to_bytes(_NUMBER_BYTES, "big")


def _gang_of(key: bytes) -> GangId:
    return GangId(GroupId(key[:-_NUMBER_BYTES]))
