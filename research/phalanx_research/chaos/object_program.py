"""The objects of simulated drivers: streams, chains of large results, cancellations, borrowing."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from phalanx.objects import failures
from phalanx.objects.reference import ObjectRef
from phalanx.objects.streams import Stream
from phalanx.owner.actors.client import ActorClient
from phalanx.owner.tasks.records import ClassKey, FunctionRecord, Template
from phalanx.protocol.actor_creation import Creation
from phalanx.protocol.messages import FAILED, Value
from phalanx.protocol.requests.actors import ActorSpec
from phalanx_research.chaos.driver import SimDriver
from phalanx_research.chaos.options import Options
from phalanx_research.chaos.work import DIES, RAISES, RETURNS, OtherError, Outcome, Raised, Work

Later = Callable[[float, Callable[[], None]], None]
Refs = list[ObjectRef[Any]]

_MAX_HELD = 15
"""The largest number of references in chains that the program holds at a time."""
_ALL_SORTS: tuple[Any, ...] = (False, True, (Raised,), (OtherError,))
"""The values from which a task's `retry_exceptions` is drawn."""


class ObjectProgram:
    """The objects of one driver, drawn from the seed."""

    def __init__(self, options: Options, driver: SimDriver, later: Later) -> None:
        self._options = options
        self._driver = driver
        self._later = later
        self._rng: random.Random = driver.host.kernel.rng(f"objects of {driver.name}")
        self._function = FunctionRecord(b"object", "object", b"")
        self._held: Refs = []
        self.actors: list[ActorClient] = []

    def plan(self, left_s: float) -> None:
        """Plan all drawn work of this driver within this time."""
        options = self._options.objects
        plans = [(options.chains, self._chain), (options.streams, self._stream)]
        plans += [(options.cancels, self._cancel), (options.parents, self._parent)]
        plans += [(options.limits, self._limit), (options.lends, self._lend)]
        for count, what in plans:
            for _ in range(-(-count // self._options.drivers)):
                self._later(self._rng.uniform(0.0, left_s), what)

    def release(self) -> None:
        """Drop all references."""
        self._held.clear()

    # ---- parts of the plan -------------------------------------------------------------------

    def _template(self, **more: Any) -> Template:
        rng = self._rng
        resources = (("CPU", rng.choice((0.5, 1.0))),)
        options: dict[str, Any] = {
            "returns": 1,
            "max_retries": rng.choice((0, 1, 3, 3, 3, -1)),
            "retry_exceptions": rng.choice(_ALL_SORTS),
        }
        key = ClassKey(resources, b"", b"", "", 0, single="timeout_s" in more)
        return Template(function=self._function, key=key, name="object", **{**options, **more})

    def _work(self, template: Template, **more: Any) -> Work:
        rng = self._rng
        ends = rng.choices((RETURNS, RAISES, DIES), (0.8, 0.1, 0.1))[0]
        bad = rng.choice((1, 1, 2, -1))
        if template.max_retries < 0:
            bad = abs(bad)  # otherwise the task would be retried forever
        seconds = min(rng.expovariate(1.0 / self._options.task_s), 3.0)
        return Work(**{"seconds": seconds, "ends": ends, "bad_attempts": bad, **more})

    def _read(self, refs: Refs) -> None:
        """Read the values of these references, and of the references inside these values."""
        for ref in refs:
            read = self._driver.promises.reads.begins(self._driver, ref)
            self._driver.read(ref, partial(self._on_read, ref, read))

    def _on_read(self, ref: ObjectRef[Any], read: int, outcome: Outcome) -> None:
        self._driver.promises.reads.ends(read, outcome)
        if ref._inner and not isinstance(outcome, BaseException):
            self._read(list(ref._inner))

    def _cancel_later(self, number: int, object_number: int, force: bool) -> None:
        recursive = self._rng.random() < 0.7

        def cancel() -> None:
            self._driver.promises.cancelled((self._driver.name, number))
            self._driver.owner.cancelling.cancel(object_number, force, recursive)

        self._later(self._rng.uniform(0.0, 1.5), cancel)

    # ---- chains of objects -------------------------------------------------------------------

    def _chain(self) -> None:
        """Submit a task on the results of earlier tasks, most of them large, and read its result
        later.
        """
        rng = self._rng
        inputs = rng.sample(self._held, min(len(self._held), rng.choice((0, 1, 1, 2))))
        template = self._template(returns=rng.choice((1, 1, 1, 2)))
        work = self._work(template, is_large=rng.random() < 0.75)
        refs, _ = self._driver.submit(template, work, inputs or None)
        if rng.random() < 0.15:
            refs.append(self._driver.put(is_large=rng.random() < 0.5))
        self._held += refs
        while len(self._held) > _MAX_HELD:
            self._held.pop(rng.randrange(len(self._held)))
        for _ in range(rng.choice((0, 1, 3))):
            self._later(rng.uniform(0.0, 15.0), partial(self._read, [rng.choice(refs)]))

    # ---- streams -----------------------------------------------------------------------------

    def _stream(self) -> None:
        rng = self._rng
        backpressure = rng.choice((-1, 1, 2))
        template = self._template(returns=-1, backpressure=backpressure)
        items = rng.randint(1, 8)
        work = self._work(template, items=items, is_large=rng.random() < 0.3)
        if self.actors and rng.random() < 0.3:
            stream = Stream(self._driver.process_id)
            self._driver.call(
                rng.choice(self.actors),
                work,
                max(template.max_retries, 0),
                returns=-1,
                backpressure=backpressure,
                stream=stream,
            )
        else:
            found = self._driver.submit(template, work)[1]
            assert found is not None
            stream = found
        stop_after = rng.randint(0, items) if rng.random() < 0.15 else items + 1
        StreamReader(self._driver, stream, rng.choice((0.0, 0.05, 0.4)), stop_after)
        if rng.random() < 0.15:
            self._cancel_later(stream.number, stream.number << 32, force=False)

    # ---- cancelling and time limits ----------------------------------------------------------

    def _cancel(self) -> None:
        rng = self._rng
        is_stubborn = rng.random() < 0.3
        if self.actors and rng.random() < 0.3:
            work = Work(seconds=rng.uniform(0.0, 1.5), is_stubborn=is_stubborn)
            (ref,) = self._driver.call(rng.choice(self.actors), work, rng.choice((0, 2)))
            self._cancel_later(ref._number >> 32, ref._number, force=False)
            return
        template = self._template()
        work = self._work(
            template,
            seconds=rng.uniform(0.0, 1.5),
            is_stubborn=is_stubborn,
            children=rng.choice((0, 0, 2)),
        )
        for _ in range(rng.choice((1, 1, 4))):
            refs, _ = self._driver.submit(template, work)
            force = rng.random() < 0.3
            if rng.random() < 0.2:  # a task that borrows the reference cancels
                self._driver.submit(self._template(), Work(seconds=0.1, cancels=True), None, refs)
            else:
                self._cancel_later(refs[0]._number >> 32, refs[0]._number, force)

    def _limit(self) -> None:
        rng = self._rng
        limit_s = rng.choice((0.1, 0.5))
        template = self._template(timeout_s=limit_s)
        seconds = limit_s * rng.choice((0.2, 0.9, 3.0, 20.0))
        work = self._work(template, seconds=seconds, is_stubborn=rng.random() < 0.3)
        self._driver.submit(template, work)

    def _parent(self) -> None:
        template = self._template()
        self._driver.submit(template, self._work(template, children=self._rng.randint(1, 3)))

    # ---- borrowing ---------------------------------------------------------------------------

    def _lend(self) -> None:
        """Create an actor that keeps references to the driver's objects, and returns references to
        its own.
        """
        rng, driver = self._rng, self._driver
        client = self._make_actor()
        self.actors.append(client)
        template = self._template(retry_exceptions=True)
        work = self._work(template, ends=RETURNS, is_large=rng.random() < 0.5)
        refs, _ = driver.submit(template, work)
        refs.append(driver.put(is_large=rng.random() < 0.5))
        driver.call(client, Work(seconds=0.0, keeps=True), 2, nested=refs)
        at_s = 0.0
        for _ in range(rng.randint(1, 4)):
            at_s += rng.uniform(0.0, 4.0)
            self._later(at_s, partial(self._use_kept, client))
        if rng.random() < 0.7:
            last = Work(seconds=0.0, keeps=True)
            self._later(at_s + rng.uniform(0.0, 4.0), partial(self._call_only, client, last))

    def _call(self, client: ActorClient, work: Work) -> Refs:
        return self._driver.call(client, work, self._rng.choice((0, 2)))

    def _call_only(self, client: ActorClient, work: Work) -> None:
        self._call(client, work)

    def _use_kept(self, client: ActorClient) -> None:
        refs = self._call(client, Work(seconds=0.01, reads=True, gives=self._rng.choice((0, 2))))
        if self._rng.random() < 0.8:
            self._read(refs)

    def _make_actor(self) -> ActorClient:
        rng, driver = self._rng, self._driver
        number = next(driver.owner.numbers)
        name = f"keeper {number} of {driver.name}"
        most, groups = rng.choice(((1, {}), (1, {}), (3, {}), (1, {"one": 1})))
        creation = Creation(b"", b"", name, b"", [], most, groups, False, most > 1)
        spec = ActorSpec(
            actor=driver.process_id[:12] + number.to_bytes(4, "big"),
            class_name=name,
            namespace=driver.name,
            max_restarts=rng.choice((0, 2, -1)),
            place={"CPU": 0.5},
        )
        return driver.create(creation, spec)


class StreamReader:
    """Reads the items of a stream one after another, with their values."""

    def __init__(self, driver: SimDriver, stream: Stream, pace_s: float, stop_after: int) -> None:
        """Start reading. `pace_s`: seconds between two items. After `stop_after` items the reader
        stops.
        """
        self._promises = driver.promises
        self._driver = driver
        self._stream = stream
        self._pace_s = pace_s
        self._stop_after = stop_after
        self._taken = 0
        self._look()

    def _look(self) -> None:
        stream = self._stream
        if self._taken >= self._stop_after:
            self._promises.stream_abandoned(self._driver, stream.number)
            self._driver.owner.abandoned.append(stream)
        elif stream.arrived_to > self._taken:
            self._driver.later(self._pace_s, self._take)
        elif stream.is_ended:
            self._promises.stream_over(self._driver, stream.number, self._taken, None)
        else:
            stream.waiters.append(self._look)

    def _take(self) -> None:
        ref = self._stream.take(self._taken + 1)
        value = ref._value
        if type(value) is Value and value.kind == FAILED:
            error = failures.load(value.data)
            self._promises.stream_over(self._driver, self._stream.number, self._taken, error)
            return
        self._taken += 1
        read = self._promises.reads.begins(self._driver, ref)
        self._driver.read(ref, partial(self._promises.reads.ends, read))
        self._look()
