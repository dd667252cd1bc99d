"""The store's benchmark: it measures every storage, and every figure is a number."""

from __future__ import annotations

import time

import pytest

from phalanx_benchmarks import store


def test_each_storage_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_SECONDS", 0.05)
    plain, *rows = store.run(clock=time.perf_counter)
    assert len(plain) == 2
    assert [row["store"] for row in rows] == [
        "memory",
        "sqlite",
        "redis, each write to disk",
        "redis, and one replica",
    ]
    for row in rows:
        assert len(row) == 8
        assert all(float(figure) > 0 for name, figure in row.items() if name != "store")
