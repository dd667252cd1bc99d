"""The calling side of one actor: its queue, the calls that were sent, and retries after
restarts.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, Protocol, Self

import msgspec
from msgspec.structs import replace

from phalanx.model.lifecycle import ALIVE, DEAD, PENDING_CREATION, RESTARTING
from phalanx.objects.reference import ObjectRef
from phalanx.observe.task_journal import UNLISTED, About
from phalanx.owner.bursts import MOST_CALLS, Burst, Unfinished
from phalanx.owner.children import Parent
from phalanx.owner.pipeline import Pipeline
from phalanx.owner.transport import Connection
from phalanx.owner.work import PendingWork
from phalanx.owner.work_queue import LOOK_AFTER, WorkQueue
from phalanx.protocol.messages import Payload

ENDS_TO_GO_ALONE = 3
"""After an actor has ended this many times while a call ran or may have run, the call is sent last
and alone.

The other calls then run first, and it becomes clear which call ends the actor.
"""


class CallRecipe:
    """Makes a new call that runs a finished call again, on the same actor."""

    option = "max_task_retries"

    def __init__(self, call: PendingCall) -> None:
        self.name = f"call {call.actor.name}.{call.method}"
        self.returns = call.options.returns
        self.allowed = call.retries if call.retries < 0 else call.retries + call.attempt
        self._actor = call.actor
        self._method = call.method
        self._options = replace(call.options, retries=0, backpressure=-1)

    def refusal(self) -> str:
        """Return why the call cannot run again; "" if the call can run again."""
        return "cannot run again: its actor is dead." if self._actor.state == DEAD else ""

    def renew(self, number: int, args: Payload) -> PendingCall:
        """Return the call as a new call. Its stream has no backpressure, because nobody takes the
        items one after another.
        """
        return PendingCall(number, self._actor, self._method, args, None, None, [], self._options)


class CallOptions(msgspec.Struct, frozen=True):
    """The options that all calls of a method share. They are computed once, not for each call."""

    returns: int = 1
    """The number of results. Streams have a negative number; see `model.options.count_of`."""
    retries: int = 0
    retry_exceptions: Any = False
    group: str = ""
    """The concurrency group of the calls at their actor."""
    backpressure: int = -1
    """How many items of a stream may be unread; -1: any number."""
    name: str = ""
    """The name of the calls in listings, as their caller gave it."""
    is_listed: bool = True
    """Whether listings show the calls."""


class PendingCall(PendingWork):
    """A method call, from its submission to its last result."""

    __slots__ = (
        "actor",
        "ends",
        "keep",
        "method",
        "options",
    )

    def __init__(
        self,
        number: int,
        actor: ActorClient,
        method: str,
        args: Payload,
        inputs: list[ObjectRef[Any]] | None,
        pins: list[Any] | None,
        refs: list[ObjectRef[Any]],
        options: CallOptions,
    ) -> None:
        self.number = number
        self.actor = actor
        self.method = method
        self.args = args
        self.inputs = inputs
        self.pins = pins
        self.refs = refs
        self.options = options
        self.retries = options.retries
        """How often the call may still run again."""
        self.attempt = 0
        self.ends = 0
        """How often the actor has ended while the call ran, or may have run."""
        self.parent = None
        self.missing = 0
        self.cancelled = ""
        self.stream = None
        self.keep: Any = None
        """An object that keeps the actor alive until the call ends."""
        self.on_ready = None

    @property
    def is_listed(self) -> bool:
        """Whether listings show the call."""
        return self.options.is_listed

    @property
    def connection(self) -> Connection | None:
        """The connection over which the call was sent; None if the actor has no connection."""
        return self.actor.connection

    def recipe(self) -> CallRecipe:
        return CallRecipe(self)


class CallBurst(Burst[PendingCall]):
    """Calls of one method of an actor, with the same options and consecutive numbers."""

    __slots__ = ("actor", "is_sent", "keep", "method", "options")

    missing = 0
    """A PendingCall has this attribute, too: the number of arguments that are not here yet. In a
    burst, all arguments are here.
    """
    ends = 0
    """A PendingCall has this attribute, too: how often the actor has ended while the call ran. A
    call for which this happens leaves its burst.
    """

    def __init__(
        self,
        unfinished: Unfinished[PendingCall, Any],
        first: int,
        parent: Parent | None,
        actor: ActorClient,
        method: str,
        options: CallOptions,
        keep: Any,
    ) -> None:
        """`keep`: an object that keeps the actor alive until the calls have ended."""
        super().__init__(unfinished, first, parent)
        self.actor = actor
        self.method = method
        self.options = options
        self.keep = keep
        self.is_sent = False

    def is_of(self, method: str, options: CallOptions, parent: Parent | None) -> bool:
        """Whether a call with these properties may be part of the burst."""
        return self.options is options and self.method == method and self.parent == parent

    @property
    def is_listed(self) -> bool:
        return self.options.is_listed

    def _like(self) -> Self:
        burst = type(self)(
            self.unfinished,
            self.first,
            self.parent,
            self.actor,
            self.method,
            self.options,
            self.keep,
        )
        burst.is_sent = self.is_sent
        return burst

    def _record(
        self, number: int, args: Payload, ref: ObjectRef[Any], created: float
    ) -> PendingCall:
        options = self.options
        call = PendingCall(number, self.actor, self.method, args, None, None, [ref], options)
        call.parent, call.keep = self.parent, self.keep
        return call


class CallEffects(Protocol):
    """Sends and fails calls, for an actor's client."""

    def send_calls(
        self, actor: ActorClient, calls: list[PendingCall | CallBurst], urgent: bool
    ) -> None:
        """Send these calls to the actor's worker, in order."""
        ...

    def fail_call(self, call: PendingCall, actor: ActorClient) -> None:
        """Fail a call whose actor is dead, or may be dead because it was lost during the call."""
        ...

    def ended_under(self, call: PendingCall, actor: ActorClient) -> None:
        """Note that the actor's process has ended during this call. `actor.ends`: how often it has
        ended during this call so far.
        """
        ...


class ActorClient:
    """An actor, as seen by a process that calls it."""

    __slots__ = (
        "_about_of",
        "_goes_alone",
        "about",
        "actor",
        "code",
        "concurrency",
        "connection",
        "effects",
        "ended_under",
        "ends",
        "error",
        "hold",
        "incarnation",
        "inflight",
        "name",
        "out_of_order",
        "queue",
        "reason",
        "repr_name",
        "state",
        "worker",
    )

    def __init__(self, actor: bytes, effects: CallEffects) -> None:
        self.actor = actor
        self.about = About(actor)
        self._about_of: dict[str, About] = {}
        """For calls with names of their own: a description like `about`, by the function that they
        call.
        """
        self.effects = effects
        self.name = ""
        self.repr_name = ""
        """The name that the actor gives itself; "" if its class defines none."""
        self.state = PENDING_CREATION
        self.incarnation = -1
        self.worker = b""
        self.connection: Connection | None = None
        self.queue: WorkQueue[PendingCall, CallBurst] = WorkQueue()
        self.inflight: Pipeline[PendingCall, CallBurst] = Pipeline()
        self.reason = ""
        self.error = b""
        """The error that the actor's constructor raised, pickled."""
        self.code = ""
        """The code of the error with which calls fail, if no node can ever hold the actor."""
        self.out_of_order = False
        self.concurrency = 0
        """How many calls the actor runs at the same time; 0 if unknown."""
        self.ended_under = ""
        """The method that ran when the actor's process last ended; "" if unknown."""
        self.ends = 0
        """How often the actor's process has ended while the call of `ended_under` ran; 0 if that
        call is unknown.
        """
        self._goes_alone = False
        """Whether the call that was sent last must run alone."""
        self.hold: Any = None
        """The references in the constructor's arguments, which must live as long as the actor."""

    def listed(self, call: PendingCall) -> tuple[str, About]:
        """Return the name and description of a call in listings."""
        if not call.options.is_listed:
            return call.method, UNLISTED
        own = f"{self.name}.{call.method}"
        name = call.options.name or (f"{self.repr_name}.{call.method}" if self.repr_name else own)
        if name == own:
            return own, self.about
        about = self._about_of.get(own)
        if about is None:
            about = self._about_of[own] = replace(self.about, function=own)
        return name, about

    def submit(self, call: PendingCall) -> None:
        """Queue the call. If the actor is dead, fail the call immediately."""
        if self.state == DEAD or (self.state == RESTARTING and call.retries == 0 and self.worker):
            # As in Ray, a call that may not be sent twice does not wait for an actor to come back.
            # It does wait for an actor that has not existed before, because nothing can have run on
            # it.
            self.effects.fail_call(call, self)
            return
        queue = self.queue
        queue.last = call.number
        if self.state != ALIVE or self.connection is None:
            queue.append(call)
        elif queue.size or call.missing or self._goes_alone or call.ends >= ENDS_TO_GO_ALONE:
            queue.append(call)
            self.pump()
        else:
            # the same with less work, because most single calls come here
            inflight = self.inflight
            is_urgent = not inflight.size
            inflight[call.number] = call
            if is_urgent:
                queue.pump_at = LOOK_AFTER
            else:
                queue.look_later(inflight.size)
            self.effects.send_calls(self, [call], is_urgent)

    @property
    def takes_bursts(self) -> bool:
        """Whether a call that is submitted now may wait a moment for others: the actor has not
        started yet, or has earlier calls to run.
        """
        if self.state != ALIVE or self.connection is None:
            return self.state == PENDING_CREATION
        return (self.inflight.size > 0 or self.queue.size > 0) and not self._goes_alone

    def pump(self) -> None:
        """Send the calls that may be sent, in order, up to the first call whose inputs are
        missing.
        """
        if (
            self.state != ALIVE
            or self.connection is None
            or not self.queue.size
            or self._goes_alone
        ):
            return
        urgent = not self.inflight.size
        batch: list[PendingCall | CallBurst] = []
        queue = self.queue
        if self.out_of_order:
            later: list[PendingCall | CallBurst] = []
            while queue.size:
                call = queue.take(MOST_CALLS)
                if (
                    call.missing
                    or self._goes_alone
                    or (call.ends >= ENDS_TO_GO_ALONE and not self._admit_alone(batch))
                ):
                    later.append(call)
                else:
                    batch.append(call)
            queue.put_back(later)
        else:
            while queue.size and not (call := queue.head).missing and not self._goes_alone:
                if call.ends >= ENDS_TO_GO_ALONE and not self._admit_alone(batch):
                    break
                batch.append(queue.take(MOST_CALLS))
        for call in batch:
            if isinstance(call, CallBurst):
                call.is_sent = True
                self.inflight.add(call)
            else:
                self.inflight[call.number] = call
        queue.look_later(self.inflight.size)
        if batch:
            self.effects.send_calls(self, batch, urgent)

    def _admit_alone(self, batch: list[PendingCall | CallBurst]) -> bool:
        """Whether a call that must run alone may be sent now. It may if no call is in `batch` and
        no call is unanswered. If it may, no other call is sent until it is answered.
        """
        self._goes_alone = not (batch or self.inflight)
        return self._goes_alone

    def finished(self, number: int) -> PendingCall | None:
        """Remove a call from the unanswered calls, because its result has come, and return it.
        Return None if the call is not among them.
        """
        call = self.inflight.pop(number, None)
        if not self.inflight.size:
            self._goes_alone = False
            if self.queue.size:  # calls that must be sent alone, or that waited for such a call
                self.pump()
        return call

    def finished_burst(self, first: int, most: int) -> CallBurst | None:
        """Remove calls that have ended from the unanswered calls: call `first` and the calls that
        follow it in its burst, at most `most` in all. Returns None if the first call is in no
        burst.
        """
        burst = self.inflight.finish(first, most)
        if burst is not None and not self.inflight.size:
            self._goes_alone = False
            if self.queue.size:
                self.pump()
        return burst

    def interrupted(self) -> None:
        """Handle the end of the actor's process: unanswered calls fail, or are queued again."""
        lost = self.inflight.take_all()
        self._goes_alone = False
        self.connection = None
        again = []
        for call in lost:
            if call.retries != 0 and self.state != DEAD and not call.cancelled:
                if call.retries > 0:
                    call.retries -= 1
                call.attempt += 1
                again.append(call)
            else:
                self.effects.fail_call(call, self)
        self.queue.extendleft(reversed(again))

    def restarting(self) -> None:
        """Wait for the actor to come back. Unanswered calls that may not be sent twice fail.

        A call under which the actor has ended several times is sent last and alone from then on, so
        that the other calls run.
        """
        self.state = RESTARTING
        blamed = self._blame()
        queued = self.queue.take_all()
        self.interrupted()
        for call in queued:
            if call.retries == 0 and not call.missing and not call.attempt and self.worker:
                self.effects.fail_call(call, self)
            else:  # the call was not sent, may be sent twice, or comes from `interrupted`
                self.queue.append(call)
        if any(call.ends >= ENDS_TO_GO_ALONE for call in self.queue):
            calls = self.queue.take_all()
            others = [call for call in calls if call.ends < ENDS_TO_GO_ALONE]
            alone = [call for call in calls if call.ends >= ENDS_TO_GO_ALONE]
            self.queue.put_back(others + sorted(alone, key=lambda call: call.ends))
        if blamed is not None:
            self.effects.ended_under(blamed, self)

    def _blame(self) -> PendingCall | None:
        """Add one to `ends` of each call that may have been running when the actor's process ended.

        Returns the call if only one can have been running; otherwise None.
        """
        runs_one = self.concurrency == 1 and not self.out_of_order
        begun = list(islice(self.inflight, 1 if runs_one else None))
        charged = [self.inflight[number] for number in begun]
        for call in charged:
            call.ends += 1
        if len(charged) != 1:
            self.ended_under, self.ends = "", 0
            return None
        self.ended_under, self.ends = charged[0].method, charged[0].ends
        return charged[0]

    def dead(self) -> None:
        """Fail all calls, because none of them will be answered."""
        self.state = DEAD
        self.interrupted()
        for call in self.queue.take_all():
            self.effects.fail_call(call, self)

    def retry(self, call: PendingCall) -> None:
        """Queue again a call whose method raised a retriable error. The call comes before later
        calls.
        """
        call.attempt += 1
        self.queue.appendleft(call)
        self.pump()

    def withdraw(self, call: PendingCall) -> bool:
        """Remove a call from the queue. Returns False if the call was sent already."""
        try:
            self.queue.remove(call)
        except ValueError:
            return False
        return True

    def begun(self) -> Iterable[int]:
        """Return the numbers of the calls that are running: the oldest unanswered calls, as many as
        the actor runs at the same time. This is exact if nobody else calls the actor.
        """
        return islice(self.inflight, self.concurrency or None)

    @property
    def pending(self) -> int:
        """The number of calls without a result."""
        return len(self.queue) + len(self.inflight)
