"""Spans of tracing: a task's span is a child of the span that submitted the task, and settings are
checked.
"""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from phalanx.runtime.engine.tracing import CARRIED, Tracing
from phalanx.runtime.engine.tracing_setup import wanted


def test_what_runs_stands_beneath_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    tracing = Tracing()
    kwargs = tracing.submitted("f", {"x": 1})
    carrier = kwargs.pop(CARRIED)
    assert tracing.running(lambda x: x + 1, "f", carrier, {"a": 1})(**kwargs) == 2
    submit, run = spans.get_finished_spans()
    assert (submit.name, run.name) == ("submit f", "run f")
    assert run.parent is not None
    assert submit.context is not None
    assert run.parent.span_id == submit.context.span_id


def test_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PHALANX_TRACING", raising=False)
    assert wanted(None) == (False, None)
    assert wanted(True) == (True, None)
    assert wanted("a:b") == (True, "a:b")
    monkeypatch.setenv("PHALANX_TRACING", "1")
    assert wanted(None) == (True, None)
    with pytest.raises(TypeError, match="MODULE:FUNCTION"):
        wanted("no")
