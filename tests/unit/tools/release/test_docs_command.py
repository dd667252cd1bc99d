"""The command `phalanx docs` of the distribution phalanx-docs, on the pages of this checkout."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path
from typing import Any

import pytest

from phalanx.cli.ending import Ended

from .loading import ROOT


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return the module of the command. Its package contains the pages as they are distributed."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "package"))
    module = importlib.import_module("phalanx_docs.command")
    project = tomllib.loads((ROOT / "docs" / "pyproject.toml").read_text())
    packed = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    for source, target in packed.items():
        place = tmp_path / Path(target).relative_to("phalanx_docs")
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(ROOT / "docs" / source)
    monkeypatch.setattr(module.resources, "files", lambda name: tmp_path)
    return module


def test_all_pages_are_listed_by_title(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    command.docs()
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "The configuration file" in rows["howto/configuration"]
    assert {"index", "glossary", "tutorials/first-hour", "decisions/releases"} <= set(rows)


@pytest.mark.parametrize("name", ["howto/cluster", "cluster", "docs/howto/cluster.md"])
def test_a_page_is_shown_under_each_of_its_names(
    command: Any, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command.docs(name)
    assert capsys.readouterr().out.startswith("# Clusters\n")


def test_an_unknown_page_suggests_the_nearest(
    command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Ended) as ended:
        command.docs("clustr")
    assert ended.value.code == 3
    assert "did you mean 'cluster'? `phalanx docs` lists all pages" in capsys.readouterr().err


def test_a_search_names_page_and_line(command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    command.docs(search="phalanx TOKEN cluster add")
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("howto/operations:")
    with pytest.raises(Ended) as ended:
        command.docs(search="no page has these words")
    assert ended.value.code == 3
