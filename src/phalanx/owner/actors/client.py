"""The calling side of one actor: its calls in order, those under way, retries over restarts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Any, Protocol

from msgspec.structs import replace

from phalanx.model.lifecycle import ALIVE, DEAD, PENDING_CREATION, RESTARTING
from phalanx.objects.reference import ObjectRef
from phalanx.observe.task_journal import UNLISTED, About
from phalanx.owner.transport import Connection
from phalanx.owner.work import PendingWork
from phalanx.protocol.messages import Payload

ENDS_TO_GO_ALONE = 3
"""So often may an actor end under a call, or under calls of which it is one, before that call is
sent last and alone: then the others run, and it is known which one ends the actor."""


class CallRecipe:
    """How a finished call is run once more, on the same actor."""

    option = "max_task_retries"

    def __init__(self, call: PendingCall) -> None:
        self.name = f"call {call.actor.name}.{call.method}"
        self.returns = call.returns
        self.allowed = call.retries if call.retries < 0 else call.retries + call.attempt
        self._actor = call.actor
        self._method = call.method
        self._group = call.group
        self._retry_exceptions = call.retry_exceptions
        self._own_name = call.name
        self._is_listed = call.is_listed

    def refusal(self) -> str:
        """See Recipe."""
        return "cannot run again: its actor is dead." if self._actor.state == DEAD else ""

    def renew(self, number: int, args: Payload) -> PendingCall:
        """See Recipe. Nobody takes the items of a stream in turn, so nothing holds it back."""
        call = PendingCall(
            number, self._actor, self._method, args, None, None, [], self.returns, 0, self._group
        )
        call.retry_exceptions = self._retry_exceptions
        call.name = self._own_name
        call.is_listed = self._is_listed
        return call


class PendingCall(PendingWork):
    """One method call between submission and its last result."""

    __slots__ = (
        "actor",
        "backpressure",
        "ends",
        "group",
        "is_listed",
        "keep",
        "method",
        "name",
        "retry_exceptions",
        "returns",
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
        returns: int,
        retries: int,
        group: str,
    ) -> None:
        self.number = number
        self.actor = actor
        self.method = method
        self.args = args
        self.inputs = inputs
        self.pins = pins
        self.refs = refs
        self.returns = returns
        self.retries = retries
        self.group = group
        """Its concurrency group at the actor."""
        self.name = ""
        """What its caller calls it, in listings."""
        self.is_listed = True
        """Whether listings have it."""
        self.retry_exceptions: Any = False
        self.backpressure = -1
        self.attempt = 0
        self.ends = 0
        """How often the actor has ended while the call ran, or may have run."""
        self.parent = None
        self.missing = 0
        self.cancelled = ""
        self.stream = None
        self.keep: Any = None
        """What keeps the actor alive while the call is on its way."""
        self.on_ready = None

    @property
    def connection(self) -> Connection | None:
        """See PendingWork."""
        return self.actor.connection

    def recipe(self) -> CallRecipe:
        """See PendingWork."""
        return CallRecipe(self)


class CallEffects(Protocol):
    """What an actor's client asks of the owner."""

    def send_calls(self, actor: ActorClient, calls: list[PendingCall], urgent: bool) -> None:
        """Send these calls to the actor's worker, in order."""
        ...

    def fail_call(self, call: PendingCall, actor: ActorClient) -> None:
        """The actor is dead, or went away under the call and may be."""
        ...

    def ended_under(self, call: PendingCall, actor: ActorClient) -> None:
        """The actor's process has ended under this call, `actor.ends` times in a row."""
        ...


class ActorClient:
    """What one process knows of one actor it calls."""

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
        """The same of calls with a name of their own, by what they call."""
        self.effects = effects
        self.name = ""
        self.repr_name = ""
        """What it calls itself; empty where its class does not say."""
        self.state = PENDING_CREATION
        self.incarnation = -1
        self.worker = b""
        self.connection: Connection | None = None
        self.queue: deque[PendingCall] = deque()
        self.inflight: dict[int, PendingCall] = {}
        self.reason = ""
        self.error = b""
        """What its constructor raised, pickled."""
        self.code = ""
        """Of the error for which it could be placed nowhere."""
        self.out_of_order = False
        self.concurrency = 0
        """How many of its calls run at once; 0: nobody knows."""
        self.ended_under = ""
        """The method that ran when its process last ended; empty where nobody knows."""
        self.ends = 0
        """How often it has ended under that call."""
        self._goes_alone = False
        """Whether the call that is under way is to be alone."""
        self.hold: Any = None
        """What the constructor's arguments refer to: alive for as long as the actor."""

    def listed(self, call: PendingCall) -> tuple[str, About]:
        """How a call is listed: by which name, and as what."""
        if not call.is_listed:
            return call.method, UNLISTED
        own = f"{self.name}.{call.method}"
        name = call.name or (f"{self.repr_name}.{call.method}" if self.repr_name else own)
        if name == own:
            return own, self.about
        about = self._about_of.get(own)
        if about is None:
            about = self._about_of[own] = replace(self.about, function=own)
        return name, about

    def submit(self, call: PendingCall) -> None:
        """Queue the call, or fail it at once when the actor is dead."""
        if self.state == DEAD or (self.state == RESTARTING and call.retries == 0 and self.worker):
            # As Ray: a call that may not be sent twice does not wait for the actor to come back.
            # For one that never was there it does: nothing can have run.
            self.effects.fail_call(call, self)
            return
        self.queue.append(call)
        if self.state == ALIVE and self.connection is not None:
            self.pump()

    def pump(self) -> None:
        """Send what may go: in order, up to the first call whose inputs are missing."""
        if self.state != ALIVE or self.connection is None or not self.queue or self._goes_alone:
            return
        urgent = not self.inflight
        batch: list[PendingCall] = []
        queue = self.queue
        if self.out_of_order:
            later: deque[PendingCall] = deque()
            while queue:
                call = queue.popleft()
                waits = call.missing or not self._may_join(call, batch)
                (later if waits else batch).append(call)
            self.queue = later
        else:
            while queue and not queue[0].missing and self._may_join(queue[0], batch):
                batch.append(queue.popleft())
        if batch:
            for call in batch:
                self.inflight[call.number] = call
            self.effects.send_calls(self, batch, urgent)

    def _may_join(self, call: PendingCall, batch: list[PendingCall]) -> bool:
        """Whether a call may be sent with those of the batch, and with those under way."""
        if self._goes_alone:
            return False
        if call.ends >= ENDS_TO_GO_ALONE:
            self._goes_alone = not (batch or self.inflight)
            return self._goes_alone
        return True

    def finished(self, number: int) -> PendingCall | None:
        """A result of call `number` came."""
        call = self.inflight.pop(number, None)
        if not self.inflight:
            self._goes_alone = False
            if self.queue:  # what is to go alone, or waited for such a call
                self.pump()
        return call

    def interrupted(self) -> None:
        """The actor's process is gone: calls under way fail, or wait for it to come back."""
        lost = list(self.inflight.values())
        self.inflight.clear()
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
        """The actor comes back later. Calls fail that would go now and may not be sent twice.

        A call under which it has ended several times goes last from then on, and alone, so that
        the others run.
        """
        self.state = RESTARTING
        blamed = self._blame()
        queued = list(self.queue)
        self.queue.clear()
        self.interrupted()
        for call in queued:
            if call.retries == 0 and not call.missing and not call.attempt and self.worker:
                self.effects.fail_call(call, self)
            else:  # it cannot have been sent, or may be sent twice, or comes from `interrupted`
                self.queue.append(call)
        doubtful = [call for call in self.queue if call.ends >= ENDS_TO_GO_ALONE]
        if doubtful:
            others = [call for call in self.queue if call.ends < ENDS_TO_GO_ALONE]
            self.queue = deque(others + sorted(doubtful, key=lambda call: call.ends))
        if blamed is not None:
            self.effects.ended_under(blamed, self)

    def _blame(self) -> PendingCall | None:
        """Charge the calls that may have run as the process ended. The call that did run, where
        only one can have."""
        runs_one = self.concurrency == 1 and not self.out_of_order
        charged = list(islice(self.inflight.values(), 1 if runs_one else None))
        for call in charged:
            call.ends += 1
        if len(charged) != 1:
            self.ended_under, self.ends = "", 0
            return None
        self.ended_under, self.ends = charged[0].method, charged[0].ends
        return charged[0]

    def dead(self) -> None:
        """No calls will ever be answered again."""
        self.state = DEAD
        self.interrupted()
        queue, self.queue = self.queue, deque()
        for call in queue:
            self.effects.fail_call(call, self)

    def retry(self, call: PendingCall) -> None:
        """The method raised something that is to be tried again: ahead of later calls."""
        call.attempt += 1
        self.queue.appendleft(call)
        self.pump()

    def withdraw(self, call: PendingCall) -> bool:
        """Take a call out of the queue. False when it is on its way already."""
        try:
            self.queue.remove(call)
        except ValueError:
            return False
        return True

    def begun(self) -> Iterable[int]:
        """The numbers of calls that run, if nobody else calls the actor."""
        return islice(self.inflight, self.concurrency or None)

    @property
    def pending(self) -> int:
        """Calls that have no result yet."""
        return len(self.queue) + len(self.inflight)
