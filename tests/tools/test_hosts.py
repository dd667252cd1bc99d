"""`tools/integrations/run.py`: what it takes for a suite that ran, and how suites begin."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
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
    hosts = [tool.read_host(path) for path in sorted((TOOL.parent / "hosts").glob("*.yaml"))]
    assert len(hosts) > 10
    for host in hosts:
        suites = [word for word in host.arguments if word.startswith(str(TOOL.parent))]
        assert all(Path(word).exists() for word in suites), host.name


def test_a_suite_without_tests_has_failed(tool: ModuleType, tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    for text in ("", "<testsuites><testsuite tests='0'/></testsuites>"):
        if text:
            report.write_text(text)
        assert tool._outcome("1", report).failed == ["no test ran"]


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


def test_no_host_lies_where_parsl_leaves_tests_out(tool: ModuleType) -> None:
    assert "integration" not in tool.VENVS.name


def test_suites_begin_with_the_signals_of_a_terminal() -> None:
    """A shell that starts it in the background has it ignore SIGINT."""
    shown = "import signal as s; print(s.getsignal(s.SIGINT) == s.default_int_handler)"
    child = [sys.executable, "-c", shown]
    begin = f"import run, subprocess; run.heed_interrupts(); subprocess.run({child!r})"
    command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", begin]
    done = subprocess.run(command, cwd=TOOL.parent, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
