"""Actors that share a stream of work: each free actor takes the next item."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from phalanx.api.objects import get, wait
from phalanx.errors import ActorDiedError

V = TypeVar("V")
Submit = Callable[[Any, V], Any]
"""A function of an actor and a value, which makes the call and returns its reference or
references.
"""


class ActorPool:
    """A pool of actors: each value goes to a free actor.

    `fn(actor, value)` makes the call and returns its reference; the actor is busy until the result
    is read. When an actor dies, reading its result raises ActorDiedError, and the pool no longer
    uses the actor. Subclasses, Flower's among them, use the pool's fields and `_return_actor`.

    Example:
        pool = ActorPool([Counter.remote() for _ in range(4)])
        results = list(pool.map(lambda actor, value: actor.add.remote(value), range(100)))
    """

    def __init__(self, actors: Iterable[Any]) -> None:
        self._idle_actors: list[Any] = list(actors)
        self._pending_submits: deque[tuple[Submit[Any], Any]] = deque()
        # the result of fn -> (number of the task, actor)
        self._future_to_actor: dict[Any, Any] = {}
        self._index_to_future: dict[int, Any] = {}
        self._next_task_index = 0
        self._next_return_index = 0

    def map(self, fn: Submit[V], values: Iterable[V]) -> Iterator[Any]:
        """Return an iterator over the results of all values, in their order.

        The calls start immediately. Unread results of earlier calls are dropped.

        Example:
            for result in pool.map(lambda actor, value: actor.add.remote(value), [1, 2, 3]):
                print(result)
        """
        self._drop_earlier()
        for value in values:
            self.submit(fn, value)
        return self._drain(self.get_next)

    def map_unordered(self, fn: Submit[V], values: Iterable[V]) -> Iterator[Any]:
        """Return an iterator over the results of all values, each as soon as it is ready.

        The calls start immediately. Unread results of earlier calls are dropped.
        """
        self._drop_earlier()
        for value in values:
            self.submit(fn, value)
        return self._drain(self.get_next_unordered)

    def submit(self, fn: Submit[V], value: V) -> None:
        """Start the call on a free actor, or queue it until an actor is free."""
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
        """Whether any result has not been read yet."""
        return bool(self._future_to_actor)

    def has_free(self) -> bool:
        """Whether an actor is free and no value waits for one."""
        return bool(self._idle_actors) and not self._pending_submits

    def pop_idle(self) -> Any | None:
        """Remove a free actor from the pool and return it; None when no actor is free."""
        return self._idle_actors.pop() if self.has_free() else None

    def push(self, actor: Any) -> None:
        """Add an actor. Raises ValueError when it is already in the pool."""
        busy = (busy_actor for _, busy_actor in self._future_to_actor.values())
        if actor in self._idle_actors or any(actor == each for each in busy):
            raise ValueError(f"{actor!r} belongs to this ActorPool already")
        self._return_actor(actor)

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Return the next result in the order of submission, waiting at most `timeout` seconds.

        Raises StopIteration when there is no unread result, ValueError when get_next_unordered has
        already returned that result, and TimeoutError after `timeout`. With `ignore_if_timedout`,
        the call is skipped after the TimeoutError: the next `get_next` returns the result of the
        following call, and the actor gets the next value.

        Example:
            pool.submit(lambda actor, value: actor.add.remote(value), 1)
            result = pool.get_next(timeout=10)
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
        """Return any result that is ready, waiting at most `timeout` seconds. Raises StopIteration
        and TimeoutError like `get_next`.

        With `ignore_if_timedout`, the unread call that was submitted first is skipped when
        TimeoutError is raised.
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
        """Drop the results that have not been read. Values in the queue are still sent to actors,
        because callers rely on it.
        """
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
    """Return the first reference of a call. All references of a call are ready at the same time."""
    return answer[0] if isinstance(answer, (list, tuple)) else answer


def _key(answer: Any) -> Any:
    return tuple(answer) if isinstance(answer, list) else answer
