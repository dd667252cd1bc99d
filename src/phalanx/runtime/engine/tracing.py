"""Spans of OpenTelemetry for tasks and actors: the span of a piece of work is a child of the span
of its submission.

If tracing is off, a call only reads `active`. If it is on, the keyword arguments of a call contain
its caller's context, in the W3C's form (`traceparent`), and the worker opens a span below that
context. `tracing_setup` turns tracing on.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

CARRIED = "_phalanx_trace"
"""The name of the keyword argument with the caller's context."""
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
        """Open a span for a call that is being submitted. Returns the call's keyword arguments with
        the span's context.
        """
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
        """Return a function that runs the given one within a span. The span's parent is the context
        in the carrier.

        The span of a generator or a coroutine lasts until the generator or coroutine has ended.
        """
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
        """Export the spans that have ended."""
        force = getattr(self._trace.get_tracer_provider(), "force_flush", None)
        if force is not None:
            force()


active: Tracing | None = None
"""The tracing of this process; None if nothing is traced."""


def begin() -> None:
    """Trace from now on, with the current provider."""
    global active
    active = Tracing()


def end() -> None:
    """Stop tracing, and export the spans that have ended."""
    global active
    ending, active = active, None
    if ending is not None:
        ending.flush()
