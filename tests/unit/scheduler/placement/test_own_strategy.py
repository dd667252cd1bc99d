"""The strategy in docs/explanation/placement.md works exactly as it is printed there, loaded by an
entry point.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from tests.docs.programs import ROOT, programs_in

from phalanx.scheduler.placement.entry import placement_strategy
from phalanx.scheduler.placement.placement_policy import read_placement_policy
from phalanx.scheduler.placement.waiting_time import LeastWaiting

from .language import cluster, picks, request

DOCS = ROOT / "docs" / "explanation" / "placement.md"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the documented file and its entry point."""
    text = DOCS.read_text(encoding="utf-8")
    (code,) = [
        p for p, _ in programs_in("docs/explanation/placement.md") if p.startswith('"""Strategy')
    ]
    assert len(code.splitlines()) <= 30
    (line,) = re.findall(r'entry-points."phalanx.strategies"\]\n(\S+) = "(\S+)"', text)
    name, target = line
    (tmp_path / f"{target.partition(':')[0]}.py").write_text(code)
    folder = tmp_path / "ours-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: ours\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        f"[phalanx.strategies]\n{name} = {target}\nbroken = our_strategies:__doc__\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "our_strategies", raising=False)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("nodes", "terms", "expected"),
    [
        ("a 1CPU lease-ends=3; b 1CPU lease-ends=9; c 1CPU", "", "b"),
        ("a 1CPU lease-ends=3; b 0/1CPU lease-ends=9", "", "a"),
        ("a 0/1CPU lease-ends=3; b 0/1CPU lease-ends=9", "", "b busy"),
        ("a 0/1CPU lease-ends=3", "now", "unavailable"),
        ("a 1CPU; b 1CPU", "", "a"),
    ],
)
def test_the_documented_strategy(nodes: str, terms: str, expected: str) -> None:
    view = cluster(nodes.replace(";", "\n"))
    made = placement_strategy(read_placement_policy("latest-lease"), LeastWaiting())
    assert picks(made, view, request("1CPU"), terms) == expected


@pytest.mark.usefixtures("installed")
def test_an_entry_point_that_is_no_strategy() -> None:
    with pytest.raises(ValueError, match=r"entry point 'broken' of phalanx\.strategies is not"):
        read_placement_policy("broken")
    with pytest.raises(
        ValueError, match="installed by entry points: broken, latest-lease; built in: default"
    ):
        read_placement_policy("other")
