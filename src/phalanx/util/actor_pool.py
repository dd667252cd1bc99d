"""A fixed set of actors that share a stream of work: each free actor takes the next item."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from phalanx.api.objects import get, wait
from phalanx.errors import ActorDiedError

V = TypeVar("V")
Submit = Callable[[Any, V], Any]
"""Called with an actor and a value; returns the ref (or the list of refs) of the call."""


class ActorPool:
    """Hands values to whichever of the given actors is free.

    `fn(actor, value)` makes the call and returns its ref; the actor counts as busy until then.
    An actor that died is left out from then on, and its caller gets the ActorDiedError.
    """

    def __init__(self, actors: Iterable[Any]) -> None:
        self._idle: list[Any] = list(actors)
        self._pending_submits: deque[tuple[Submit[Any], Any]] = deque()
        self._in_flight: dict[int, tuple[Any, Any]] = {}  # number of the task: what fn gave, actor
        self._submitted = 0
        self._next_in_order = 0

    def map(self, fn: Submit[V], values: Iterable[V]) -> Iterator[Any]:
        """The results of all values, in their order.

        Work starts at once; results that earlier calls left behind are dropped.
        """
        self._drop_earlier()
        for value in values:
            self.submit(fn, value)
        return self._drain(self.get_next)

    def map_unordered(self, fn: Submit[V], values: Iterable[V]) -> Iterator[Any]:
        """The results of all values, each as soon as it is there."""
        self._drop_earlier()
        for value in values:
            self.submit(fn, value)
        return self._drain(self.get_next_unordered)

    def submit(self, fn: Submit[V], value: V) -> None:
        """Start the call on a free actor, or keep it until one is free."""
        if not self._idle:
            self._pending_submits.append((fn, value))
            return
        actor = self._idle.pop()
        try:
            answer = fn(actor, value)
        except BaseException:
            self._idle.append(actor)
            raise
        self._in_flight[self._submitted] = (answer, actor)
        self._submitted += 1

    def has_next(self) -> bool:
        """Whether a result is still to come."""
        return bool(self._in_flight)

    def has_free(self) -> bool:
        """Whether an actor is idle and nothing waits for it."""
        return bool(self._idle) and not self._pending_submits

    def pop_idle(self) -> Any | None:
        """Take an idle actor out of the pool; None when none is free."""
        return self._idle.pop() if self.has_free() else None

    def push(self, actor: Any) -> None:
        """Add an actor. Raises ValueError when the pool has it already."""
        if actor in self._idle or any(actor == busy for _, busy in self._in_flight.values()):
            raise ValueError(f"{actor!r} belongs to this ActorPool already")
        self._release(actor)

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """The next result in the order of submission, waiting at most `timeout` seconds.

        Raises StopIteration when nothing is pending, ValueError when get_next_unordered has gone
        ahead of the order, TimeoutError when time is up; with `ignore_if_timedout` that task is
        then left behind, and its actor takes the next one.
        """
        if not self.has_next():
            raise StopIteration("no result is pending in this ActorPool")
        if self._next_in_order not in self._in_flight:
            raise ValueError("get_next cannot follow get_next_unordered: the order is broken")
        number = self._next_in_order
        if timeout is not None and not self._is_ready(number, timeout):
            self._time_out(number, timeout, forget=ignore_if_timedout)
        return self._take(number)

    def get_next_unordered(
        self, timeout: float | None = None, ignore_if_timedout: bool = False
    ) -> Any:
        """Any result that is ready, waiting at most `timeout` seconds; errors as in get_next.

        When time is up with `ignore_if_timedout`, the task submitted first is left behind.
        """
        if not self.has_next():
            raise StopIteration("no result is pending in this ActorPool")
        numbers = {_first_ref(answer): number for number, (answer, _) in self._in_flight.items()}
        ready, _ = wait(list(numbers), num_returns=1, timeout=timeout)
        if not ready:
            self._time_out(next(iter(self._in_flight)), timeout, forget=ignore_if_timedout)
        return self._take(numbers[ready[0]])

    def _drain(self, take: Callable[[], Any]) -> Iterator[Any]:
        while self.has_next():
            yield take()

    def _drop_earlier(self) -> None:
        """What waits is still started: it was promised to run, only its result is not wanted."""
        while self._in_flight:
            self._forget(next(iter(self._in_flight)))

    def _is_ready(self, number: int, timeout_s: float) -> bool:
        answer, _ = self._in_flight[number]
        ready, _ = wait([_first_ref(answer)], num_returns=1, timeout=timeout_s)
        return bool(ready)

    def _time_out(self, number: int, timeout_s: float | None, *, forget: bool) -> None:
        message = f"no result within {timeout_s} s"
        if forget:
            self._forget(number)
            message += f"; task {number} of this ActorPool is left behind"
        raise TimeoutError(message)

    def _take(self, number: int) -> Any:
        answer, actor = self._pop(number)
        is_alive = True
        try:
            return get(answer)
        except ActorDiedError:
            is_alive = False
            raise
        finally:
            if is_alive:
                self._release(actor)

    def _forget(self, number: int) -> None:
        _, actor = self._pop(number)
        self._release(actor)

    def _pop(self, number: int) -> tuple[Any, Any]:
        self._next_in_order = max(self._next_in_order, number + 1)
        return self._in_flight.pop(number)

    def _release(self, actor: Any) -> None:
        self._idle.append(actor)
        if self._pending_submits:
            self.submit(*self._pending_submits.popleft())


def _first_ref(answer: Any) -> Any:
    """All refs of one call are ready together, so the first speaks for them."""
    return answer[0] if isinstance(answer, (list, tuple)) else answer
