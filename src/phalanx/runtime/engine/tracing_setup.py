"""Begins tracing in a process, as OpenTelemetry's own variables or a function of the program set it
up.

OTEL_TRACES_EXPORTER (otlp, console, none, or any installed exporter), OTEL_EXPORTER_OTLP_ENDPOINT,
OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, OTEL_RESOURCE_ATTRIBUTES and OTEL_SDK_DISABLED mean the same
as in OpenTelemetry. A provider that the program has set is kept.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from phalanx.errors import PhalanxError
from phalanx.runtime.engine import tracing

VARIABLE = "PHALANX_TRACING"
"""The variable that turns tracing on in programs that do not turn it on themselves. Its value is 1
or MODULE:FUNCTION.
"""
DELAY_MS = 1_000
"""The longest time, in milliseconds, for which a span waits in its process, unless
OTEL_BSP_SCHEDULE_DELAY sets another.
"""
Setup = str | Callable[[], Any] | None
"""A function that sets up a provider, or its name as MODULE:FUNCTION; None to use the environment
variables.
"""
_EXPORTERS = "opentelemetry_traces_exporter"
_OTLP = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


class TracingUnavailableError(PhalanxError, ImportError):
    """Raised when tracing is on and OpenTelemetry is not installed."""


def wanted(asked: bool | Setup) -> tuple[bool, Setup]:
    """Return whether to trace, and how tracing is set up. If `asked` is None, PHALANX_TRACING
    decides.

    Raises TypeError for any value except True, False, MODULE:FUNCTION and a function.
    """
    if asked is None:
        said = os.environ.get(VARIABLE, "")
        asked = said if ":" in said else said.lower() in ("1", "true", "on", "yes")
    if isinstance(asked, bool):
        return asked, None
    if callable(asked) or (isinstance(asked, str) and ":" in asked):
        return True, asked
    raise TypeError(
        f"tracing={asked!r}: must be True (by OpenTelemetry's variables), False, a function that "
        "sets up a provider in each process, or its name as MODULE:FUNCTION"
    )


def begin_tracing(setup: Setup) -> Callable[[], None]:
    """Begin tracing in this process. Returns the function that each worker must run to do the same.

    Raises TracingUnavailableError, ValueError for an exporter that is not installed, and the errors
    of the program's function.
    """
    _begin(setup)
    variables = {name: text for name, text in os.environ.items() if name.startswith("OTEL_")}
    return partial(_begin_in_worker, setup, variables)


def _begin_in_worker(setup: Setup, variables: dict[str, str]) -> None:
    for name, text in variables.items():
        os.environ.setdefault(name, text)
    _begin(setup)


def _begin(setup: Setup) -> None:
    try:
        import opentelemetry.trace  # noqa: F401 -- checks that it is installed
    except ImportError:
        raise TracingUnavailableError(
            "Tracing needs OpenTelemetry: pip install 'phalanx[otel]', or leave tracing off."
        ) from None
    if isinstance(setup, str):
        module, _, name = setup.partition(":")
        getattr(importlib.import_module(module), name)()
    elif setup is not None:
        setup()
    else:
        _by_variables()
    tracing.begin()


def _by_variables() -> None:
    from opentelemetry import trace

    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise TracingUnavailableError(
            "Tracing by variables needs OpenTelemetry's SDK: pip install 'phalanx[otel]', or give "
            "tracing=FUNCTION that sets up your own provider."
        ) from None
    if isinstance(trace.get_tracer_provider(), TracerProvider):
        return  # the program has set its own provider
    resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "phalanx")})
    provider = TracerProvider(resource=resource)
    delay = None if "OTEL_BSP_SCHEDULE_DELAY" in os.environ else DELAY_MS
    for name in os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(","):
        if name.strip() not in ("", "none"):
            exporter = _exporter(name.strip())
            provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=delay))
    trace.set_tracer_provider(provider)


def _exporter(name: str) -> Any:
    from importlib.metadata import entry_points

    protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    installed = {one.name: one for one in entry_points(group=_EXPORTERS)}
    known = installed.get(_OTLP.get(protocol, protocol) if name == "otlp" else name)
    if known is None:
        raise ValueError(
            f"OTEL_TRACES_EXPORTER={name}: no such exporter is installed; available: "
            f"{', '.join(sorted(installed)) or 'none'}, otlp and none"
        )
    return known.load()()
