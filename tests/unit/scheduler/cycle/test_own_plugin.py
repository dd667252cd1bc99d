"""The documentation's example of a user's plugin, loaded by an entry point."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.programs import programs_in
from tests.unit.scheduler.cycle.lines import cases
from tests.unit.scheduler.cycle.test_tables import snapshot_of

from phalanx.scheduler.cycle import registry
from phalanx.scheduler.cycle.cycle import run_cycle

PAGE = "docs/explanation/batch.md"
TABLE = """
use allocate | gang | predicates, nodeorder, quiet
case a quiet task goes where it is quiet
node a 4c 4G
node b 4c 4G quiet=yes
queue q
gang g q min=1
task loud g 1c 1G
task still g 1c 1G {annotations: {quiet: "yes"}}

case a night queue sleeps by day
now 43200
node a 4c 4G
queue night-q
gang g night-q min=1
task t g 1c 1G

case and works by night
now 10
node a 4c 4G
queue night-q
gang g night-q min=1
task t g 1c 1G
"""


@pytest.fixture(params=registry.GROUPS)
def installed(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Install a distribution with the example's module and its entry point."""
    module = next(m for m, _ in programs_in(PAGE) if "class Quiet" in m)
    (tmp_path / "quiet_example.py").write_text(module)
    dist = tmp_path / "quiet_example-1.dist-info"
    dist.mkdir()
    (dist / "METADATA").write_text("Metadata-Version: 2.1\nName: quiet-example\nVersion: 1\n")
    (dist / "entry_points.txt").write_text(f"[{request.param}]\nquiet = quiet_example:Quiet\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._outside.cache_clear()
    yield module
    registry._outside.cache_clear()


def test_it_is_short_and_works(installed: str) -> None:
    assert len([line for line in installed.splitlines() if line.strip()]) <= 30
    day, asleep, awake = (run_cycle(snapshot_of(c)) for c in cases(TABLE))
    assert day.binds["default/still"] == "b"
    assert asleep.binds == {}
    assert "quiet-by-day" in [r.reason for r in asleep.rejections["default/t"]]
    assert awake.binds == {"default/t": "a"}


def test_a_plugin_that_is_not_installed_is_unknown() -> None:
    assert "quiet" not in registry.known_plugins()
