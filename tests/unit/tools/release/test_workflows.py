"""The workflows of CI: pinned actions, few rights, and the versions of Python that the package
names.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
import yaml

from .loading import ROOT

FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_action_is_pinned_to_a_commit_and_names_its_version(path: Any) -> None:
    uses = re.findall(r"uses: (.*)", path.read_text())
    assert uses
    for one in uses:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one), one


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_workflow_may_only_read_unless_a_job_says_more(path: Any) -> None:
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}


def test_only_the_job_that_publishes_may_get_an_identity() -> None:
    jobs = read("release.yml")["jobs"]
    rights = {name: job.get("permissions", {}) for name, job in jobs.items()}
    assert rights == {
        "build": {}, "publish": {"id-token": "write"}, "files": {"contents": "write"},
    }  # fmt: skip
    assert jobs["publish"]["environment"] == "release"


def test_the_tests_run_on_all_versions_of_python_and_of_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [one.rpartition(" ")[2] for one in project["classifiers"] if "Python :: 3." in one]
    jobs = read("checks.yml")["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python-version"] == named
    versions = jobs["test-versions"]["strategy"]["matrix"]["include"]
    assert {one["versions"] for one in versions} == {"newest", "lowest"}


def test_all_distributions_have_one_version() -> None:
    folders = ("", "docs", "research", "benchmarks")
    files = [ROOT / folder / "pyproject.toml" for folder in folders]
    assert len({tomllib.loads(file.read_text())["project"]["version"] for file in files}) == 1
