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
    Pools that derive from this one, Flower's among them, know its fields and `_return_actor`.
    """

    def __init__(self, actors: Iterable[Any]) -> None:
        self._idle_actors: list[Any] = list(actors)
        self._pending_submits: deque[tuple[Submit[Any], Any]] = deque()
        self._future_to_actor: dict[Any, Any] = {}  # what fn gave: number of the task, actor
        self._index_to_future: dict[int, Any] = {}
        self._next_task_index = 0
        self._next_return_index = 0

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
        if not self._idle_actors:
            self._pending_submits.append((fn, value))
            return
        actor = self._idle_actors.pop()
        try:
            answer = fn(actor, value)
        except BaseException:
            self._idle_actors.append(actor)
            raise
        self._future_to_actor[_key(answer)] = (self._next_task_index, actor)
        self._index_to_future[self._next_task_index] = answer
        self._next_task_index += 1

    def has_next(self) -> bool:
        """Whether a result is still to come."""
        return bool(self._future_to_actor)

    def has_free(self) -> bool:
        """Whether an actor is idle and nothing waits for it."""
        return bool(self._idle_actors) and not self._pending_submits

    def pop_idle(self) -> Any | None:
        """Take an idle actor out of the pool; None when none is free."""
        return self._idle_actors.pop() if self.has_free() else None

    def push(self, actor: Any) -> None:
        """Add an actor. Raises ValueError when the pool has it already."""
        busy = (entry[1] for entry in self._future_to_actor.values())
        if actor in self._idle_actors or any(actor == each for each in busy):
            raise ValueError(f"{actor!r} belongs to this ActorPool already")
        self._return_actor(actor)

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """The next result in the order of submission, waiting at most `timeout` seconds.

        Raises StopIteration when nothing is pending, ValueError when get_next_unordered has gone
        ahead of the order, TimeoutError when time is up; with `ignore_if_timedout` that task is
        then left behind, and its actor takes the next one.
        """
        if not self.has_next():
            raise StopIteration("no result is pending in this ActorPool")
        number = self._next_return_index
        if number not in self._index_to_future:
            raise ValueError("get_next cannot follow get_next_unordered: the order is broken")
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
        futures = self._index_to_future
        numbers = {_first_ref(answer): number for number, answer in futures.items()}
        ready, _ = wait(list(numbers), num_returns=1, timeout=timeout)
        if not ready:
            self._time_out(next(iter(futures)), timeout, forget=ignore_if_timedout)
        return self._take(numbers[ready[0]])

    def _drain(self, take: Callable[[], Any]) -> Iterator[Any]:
        while self.has_next():
            yield take()

    def _drop_earlier(self) -> None:
        """What waits is still started: it was promised to run, only its result is not wanted."""
        while self._index_to_future:
            self._forget(next(iter(self._index_to_future)))

    def _is_ready(self, number: int, timeout_s: float) -> bool:
        ready, _ = wait(
            [_first_ref(self._index_to_future[number])], num_returns=1, timeout=timeout_s
        )
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
                self._return_actor(actor)

    def _forget(self, number: int) -> None:
        _, actor = self._pop(number)
        self._return_actor(actor)

    def _pop(self, number: int) -> tuple[Any, Any]:
        self._next_return_index = max(self._next_return_index, number + 1)
        answer = self._index_to_future.pop(number)
        return answer, self._future_to_actor.pop(_key(answer))[1]

    def _return_actor(self, actor: Any) -> None:
        self._idle_actors.append(actor)
        if self._pending_submits:
            self.submit(*self._pending_submits.popleft())


def _first_ref(answer: Any) -> Any:
    """All refs of one call are ready together, so the first speaks for them."""
    return answer[0] if isinstance(answer, (list, tuple)) else answer


def _key(answer: Any) -> Any:
    return tuple(answer) if isinstance(answer, list) else answer
