"""Spans of OpenTelemetry across tasks and actors: what runs stands beneath what submitted it.

Off, a call costs one look at `active`. On, it carries the context of its caller among its keyword
arguments, in the W3C's form, and who runs it opens a span beneath that. `tracing_setup` begins.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

CARRIED = "_phalanx_trace"
"""The keyword argument that carries the caller's context."""
_SYSTEM = {"messaging.system": "phalanx"}


class Tracing:
    """The spans of this process."""

    def __init__(self) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._trace = trace
        self._tracer = trace.get_tracer("phalanx")
        self._form = TraceContextTextMapPropagator()

    def submitted(self, name: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The keyword arguments of a call that is submitted now, with its context."""
        carrier: dict[str, str] = {}
        with self._tracer.start_as_current_span(
            f"submit {name}",
            kind=self._trace.SpanKind.PRODUCER,
            attributes={**_SYSTEM, "messaging.operation.type": "send"},
        ):
            self._form.inject(carrier)
        return {**kwargs, CARRIED: carrier}

    @contextmanager
    def _span(
        self, name: str, carrier: Mapping[str, str], attributes: Mapping[str, Any]
    ) -> Iterator[None]:
        with self._tracer.start_as_current_span(
            f"run {name}",
            context=self._form.extract(carrier),
            kind=self._trace.SpanKind.CONSUMER,
            attributes={**_SYSTEM, "messaging.operation.type": "process", **attributes},
        ):
            yield

    def running(
        self,
        function: Callable[..., Any],
        name: str,
        carrier: Mapping[str, str],
        attributes: Mapping[str, Any],
    ) -> Callable[..., Any]:
        """The same function, within a span beneath the one that the carrier names. Of a generator
        or a coroutine the span lasts until it has ended."""
        if inspect.isasyncgenfunction(function):

            async def give_later(*args: Any, **kwargs: Any) -> Any:
                with self._span(name, carrier, attributes):
                    async for item in function(*args, **kwargs):
                        yield item

            return give_later
        if inspect.iscoroutinefunction(function):

            async def run_later(*args: Any, **kwargs: Any) -> Any:
                with self._span(name, carrier, attributes):
                    return await function(*args, **kwargs)

            return run_later
        if inspect.isgeneratorfunction(function):

            def give(*args: Any, **kwargs: Any) -> Any:
                with self._span(name, carrier, attributes):
                    yield from function(*args, **kwargs)

            return give

        def run(*args: Any, **kwargs: Any) -> Any:
            with self._span(name, carrier, attributes):
                return function(*args, **kwargs)

        return run

    def flush(self) -> None:
        """Have the spans that have ended leave the process."""
        force = getattr(self._trace.get_tracer_provider(), "force_flush", None)
        if force is not None:
            force()


active: Tracing | None = None
"""None while nothing is traced here."""


def begin() -> None:
    """Trace from now on, by the provider that is set."""
    global active
    active = Tracing()


def end() -> None:
    """Trace no more; what has ended leaves."""
    global active
    ending, active = active, None
    if ending is not None:
        ending.flush()
