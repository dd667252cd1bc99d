"""`tools/integrations/run.py`: when it counts a suite as run, and how it starts suites."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
TOOL = ROOT / "tools" / "integrations" / "run.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hosts_tool", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_file_of_hosts_is_read(tool: ModuleType) -> None:
    hosts = [tool.read_host(path) for path in sorted((TOOL.parent / "hosts").rglob("*.yaml"))]
    assert len(hosts) > 10
    assert len({host.name for host in hosts}) == len(hosts)
    for host in hosts:
        suites = [word for word in host.arguments if word.startswith(str(TOOL.parent))]
        assert all(Path(word).exists() for word in suites), host.name


def test_a_suite_without_tests_has_failed(tool: ModuleType, tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    for text in ("", "<testsuites><testsuite tests='0'/></testsuites>"):
        if text:
            report.write_text(text)
        assert tool._outcome("1", report).failed == ["no test ran"]


def test_a_suite_that_skips_all_of_its_tests_has_failed(tool: ModuleType, tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        "<testsuites><testsuite>"
        "<testcase classname='a' name='left'><skipped message='mpirun is missing'/></testcase>"
        "</testsuite></testsuites>"
    )
    assert tool._outcome("1", report).failed == ["no test ran: mpirun is missing"]


def test_a_host_that_cannot_be_installed_does_not_end_the_others(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(host: Any, is_newest: bool) -> Any:
        if host.name == "hydra":
            raise subprocess.CalledProcessError(1, ["pip"])
        return tool.Outcome(version="2", passed=3, total=3, skipped=1, failed=[])

    monkeypatch.setattr(tool, "run", run)
    monkeypatch.setattr(sys, "argv", ["run.py", "hydra", "optuna"])
    assert tool.main() == 1
    said = capsys.readouterr().out
    assert "| hydra | – | not installed |" in said
    assert "| optuna | 2 |  | 3 of 3 | 0 | 1 |" in said


def test_the_name_of_a_folder_stands_for_its_files(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def examine(host: Any, is_newest: bool) -> tuple[str, bool]:
        ran.append(host.name)
        return "| a row |", True

    monkeypatch.setattr(tool, "examine", examine)
    monkeypatch.setattr(sys, "argv", ["run.py", "slurm-clients"])
    assert tool.main() == 0
    assert ran == sorted(path.stem for path in (TOOL.parent / "hosts/slurm-clients").iterdir())


def test_an_environment_of_ours_that_was_left_half_made_is_made_anew(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In an environment that is half made, Python exists but its packages do not. A mark is written
    when an environment is complete.
    """
    ran: list[list[str]] = []
    monkeypatch.setattr(tool, "VENVS", tmp_path)
    monkeypatch.setattr(tool.subprocess, "check_output", lambda words, **more: "ours-3.11\n")
    monkeypatch.setattr(tool.subprocess, "run", lambda words, **more: ran.append(words))
    python = tmp_path / "ours-3.11" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert tool.ours(sys.executable) == python
    assert ran[0][1:4] == ["-m", "venv", "--clear"]
    made = len(ran)
    assert tool.ours(sys.executable) == python
    assert len(ran) == made


def test_what_did_not_pass_is_named_and_skips_are_not_counted(
    tool: ModuleType, tmp_path: Path
) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        "<testsuites><testsuite>"
        "<testcase classname='a' name='good'/>"
        "<testcase classname='a' name='bad'><failure/></testcase>"
        "<testcase classname='a' name='left'><skipped/></testcase>"
        "</testsuite></testsuites>"
    )
    found = tool._outcome("1", report)
    assert (found.passed, found.total, found.skipped, found.failed) == (1, 2, 1, ["a::bad"])


def test_a_suite_over_its_limit_is_ended_and_has_failed(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert tool.finish(["true"])
    monkeypatch.setattr(tool, "LIMIT_S", 0)
    assert not tool.finish(["sleep", "inf"])


def test_no_host_lies_where_parsl_leaves_tests_out(tool: ModuleType) -> None:
    assert "integration" not in tool.VENVS.name


def test_suites_begin_with_the_signals_of_a_terminal() -> None:
    """A shell that starts the tool in the background makes it ignore SIGINT."""
    shown = "import signal as s; print(s.getsignal(s.SIGINT) == s.default_int_handler)"
    child = [sys.executable, "-c", shown]
    begin = f"import run, subprocess; run.heed_interrupts(); subprocess.run({child!r})"
    command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", begin]
    done = subprocess.run(command, cwd=TOOL.parent, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
