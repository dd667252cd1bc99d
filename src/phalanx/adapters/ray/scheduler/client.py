"""The client with which programs and commands send requests to the scheduler of their Ray
cluster.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, TypeVar

import msgspec
import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError
from ray.exceptions import GetTimeoutError as RayTimeout
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from phalanx.adapters.ray.scheduler.actor import SchedulerActor
from phalanx.adapters.ray.scheduler.options import NAMESPACE, SCHEDULER, SchedulerOptions
from phalanx.adapters.ray.scheduler.ray_calls import nodes
from phalanx.errors import GetTimeoutError, SystemFailureError
from phalanx.protocol.asking import Reply
from phalanx.protocol.requests.request import Request, encode_request, read_result

R = TypeVar("R")

_HEAD = "node:__internal_head__"
_PENDING_CALLS = 100_000
"""The largest number of unanswered calls, such as calls that wait for gangs."""

_MEMORY_BYTES = 1
"""Bytes of memory that the scheduler's actor requests. Ray asks the creator's node to start an
actor that requests something, and a random node to start an actor that requests nothing. If a
random node had died unnoticed, the start would wait for some 15 s until Ray notices the death.
"""


class SchedulerClient:
    """The client of a cluster's scheduler. Its methods may be called from any thread."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor

    @classmethod
    def connect(
        cls, options: SchedulerOptions | None = None, *, start: bool = True
    ) -> SchedulerClient:
        """Find the cluster's scheduler. Ray must be initialized. With `start`, a scheduler is
        started with `options` if none runs; a running scheduler keeps its own options. Without
        `start`, raises ConnectionError if no scheduler runs.
        """
        if not start:
            try:
                return cls(ray.get_actor(SCHEDULER, namespace=NAMESPACE))
            except ValueError:
                raise ConnectionError(
                    "No scheduler of Phalanx runs on this Ray cluster. The first program that "
                    "uses queues, gangs or jobs starts one."
                ) from None
        remote = ray.remote(SchedulerActor).options(
            name=SCHEDULER,
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            num_cpus=0,
            memory=_MEMORY_BYTES,
            max_restarts=-1,
            max_task_retries=-1,
            max_concurrency=_PENDING_CALLS,
            scheduling_strategy=_beside_head(),
        )
        return cls(remote.remote(msgspec.msgpack.encode(options or SchedulerOptions())))

    def send(self, request: Request[Any], origin: bytes) -> Any:
        """Send a request.

        Returns a reference to the Reply in msgpack. `origin`: 16 bytes that identify the asking
        process. That process owns everything that the request creates. When the process ends, its
        creations are removed. If `origin` is empty, there is no owner.
        """
        return self.actor.ask.remote(origin, request.kind, bytes(encode_request(request)))

    def ask(self, request: Request[R], *, timeout_s: float | None = None, origin: bytes = b"") -> R:
        """Return the answer to one request.

        `origin` is as in `send`. Raises the error that the scheduler answers, GetTimeoutError, and
        SystemFailureError if the scheduler is gone for good.
        """
        reference = self.send(request, origin)
        try:
            reply = ray.get(reference, timeout=timeout_s)
        except RayTimeout:
            asked = type(request).__name__
            raise GetTimeoutError(
                f"the scheduler did not answer {asked} within {timeout_s} s"
            ) from None
        except (ActorDiedError, ActorUnavailableError) as error:
            raise SystemFailureError(f"The scheduler on Ray is gone: {error}") from None
        return read_reply(type(request), reply)

    def ask_async(self, request: Request[R], *, origin: bytes = b"") -> Future[R]:
        """Send a request without waiting. Returns a future, which raises the errors of `ask`."""
        replied: Future[bytes] = self.send(request, origin).future()
        result: Future[R] = Future()

        def done(future: Future[bytes]) -> None:
            if not result.set_running_or_notify_cancel():
                return
            try:
                result.set_result(read_reply(type(request), future.result()))
            except (ActorDiedError, ActorUnavailableError) as error:
                result.set_exception(SystemFailureError(f"The scheduler on Ray is gone: {error}"))
            except Exception as error:
                result.set_exception(error)

        replied.add_done_callback(done)
        return result


def read_reply(request_type: type[Request[R]], data: bytes) -> R:
    """Return the answer in a Reply, or raise the error in it."""
    reply = msgspec.msgpack.decode(data, type=Reply)
    return read_result(request_type, reply.result, reply.error)


def _beside_head() -> Any:
    """Return a strategy for the node of Ray's head, or for any node if that node cannot run
    actors.
    """
    head = next((row["NodeID"] for row in nodes() if _HEAD in row["Resources"]), None)
    return "DEFAULT" if head is None else NodeAffinitySchedulingStrategy(head, soft=True)
