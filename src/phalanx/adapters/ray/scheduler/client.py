"""How programs and commands ask the scheduler of the Ray cluster that they are connected to."""

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
from phalanx.protocol.node_messages import Reply
from phalanx.protocol.requests.request import Request, encode_request, read_result

R = TypeVar("R")

_HEAD = "node:__internal_head__"
_PENDING_CALLS = 100_000
"""So many questions may wait for their answers at once, as those of who waits for a gang."""

_MEMORY_BYTES = 1
"""An actor that asks for nothing is started through a node of Ray that is chosen at random: through
one that has died unseen only when Ray misses it, some 15 s later. One that asks for something is
started through the node of who created it, while that is alive."""


class SchedulerClient:
    """Asks the one scheduler of the cluster. Its calls may come from any thread."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor

    @classmethod
    def connect(
        cls, options: SchedulerOptions | None = None, *, start: bool = True
    ) -> SchedulerClient:
        """The cluster's scheduler; Ray must be initialized. With `start`, one is started where
        there is none, with `options`; the options of one that runs stay as they are.

        Raises ConnectionError when there is none and none is to be started.
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
        """A reference to the Reply, in msgpack. `origin`: 16 bytes that name the process which
        asks: what it owns goes when it ends. Empty: nobody owns what is made."""
        return self.actor.ask.remote(origin, request.kind, bytes(encode_request(request)))

    def ask(self, request: Request[R], *, timeout_s: float | None = None, origin: bytes = b"") -> R:
        """The answer to one request. `origin` as for `send`.

        Raises the error that is answered, GetTimeoutError, and SystemFailureError when the
        scheduler is gone for good.
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
        """The same without waiting; the future raises what `ask` raises."""
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
    """What stands in a Reply. Raises the error that it is."""
    reply = msgspec.msgpack.decode(data, type=Reply)
    return read_result(request_type, reply.result, reply.error)


def _beside_head() -> Any:
    """On the node of Ray's head while it can run actors, else anywhere."""
    head = next((row["NodeID"] for row in nodes() if _HEAD in row["Resources"]), None)
    return "DEFAULT" if head is None else NodeAffinitySchedulingStrategy(head, soft=True)
