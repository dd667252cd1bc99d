from __future__ import annotations

from itertools import count

import pytest

from phalanx_benchmarks import deciding_placement as benchmark


def test_every_strategy_and_machine_has_its_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "SIZES", (3, 12))
    monkeypatch.setattr(benchmark, "_MACHINES", ("k80x6",))
    monkeypatch.setattr(benchmark, "_DECISIONS", 3)
    ticks = count()
    rows = benchmark.run(lambda: float(next(ticks)))
    named = {str(row["choice"]): row for row in rows}
    assert named["DEFAULT"] == {"choice": "DEFAULT", "3 nodes, per s": 1, "12 nodes, per s": 1}
    assert named["STRICT_SPREAD of 4 bundles"]["12 nodes, per s"] == 1
    assert named["k80x6: 3 of 6 devices"]["longest, µs"] == 1e6
