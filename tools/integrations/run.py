"""Runs on Phalanx the test suites that other programs ship. Prints what passes, and why the rest
does not.

    python tools/integrations/run.py [HOST ...] [--newest]

Each file of `hosts` names a program, the version that was tested, and pytest's arguments for the
suite in the program's package. The name of a folder of `hosts` stands for all files in it. Each
program is installed into an environment of its own below `.venv-hosts`. This environment also sees
the packages of another one, which has Phalanx and exists once for each version of Python. The exit
code is 1 when a test fails that the program's file does not explain, or when a suite has no tests.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VENVS = ROOT / ".venv-hosts"
"""The folder of the virtual environments.

Its name does not contain "integration", because Parsl's suite leaves out all files with that word
in their path.
"""
PIP = ("-m", "pip", "--disable-pip-version-check")
INSTALL = ("install", "--quiet", "--no-compile")
BUILDERS = ("hatchling", "editables")
"""Packages that build Phalanx from its source."""
LIMIT_S = 3 * 3600
"""The longest time of a suite, in seconds. Single tests have limits of their own, so a suite
exceeds this limit only if it hangs between tests.

The limit is long because machines are shared and slow.
"""
GRACE_S = 120
"""Seconds in which a suite that has exceeded its limit may still write its report."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """One program, and how its suite is run."""

    name: str
    package: str = ""
    """The package; empty if the suite is a part of the Python interpreter.

    In that case `pinned` is a version of Python. `python_has` names the suite's module, because
    some installations of Python leave it out.
    """
    python_has: str = ""
    pinned: str
    """The tested version. docs/howto/integrations.md shows it next to the newest."""
    arguments: list[str]
    """Arguments of pytest; `{suites}` stands for the directory of suites here, `{site}` for the
    hosts' packages.
    """
    also: list[str] = field(default_factory=list)
    """Further packages that the suite needs, as pip reads them."""
    env: dict[str, str] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)
    """The tests that do not pass, by a part of their names, each with the reason."""
    what: str = ""
    """The subject of the suite, for the table that is printed."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a suite."""

    version: str
    passed: int
    total: int
    skipped: int
    failed: list[str]


def read_host(path: Path) -> Host:
    """Read the file of a program in `hosts`. In the file, `{suites}` stands for the directory of
    suites.

    Raises TypeError for an unknown key.
    """
    return Host(**yaml.safe_load(path.read_text().replace("{suites}", str(HERE / "suites"))))


def interpreter(host: Host, is_newest: bool) -> str:
    """Return the Python for a suite: this one, or one on the PATH that has the suite.

    Raises LookupError when there is none.
    """
    if not host.python_has:
        return sys.executable
    names = [f"python3.{minor}" for minor in range(19, 9, -1)]
    for name in names if is_newest else [f"python{host.pinned}"]:
        asking = f"import sys, {host.python_has}; print(sys.executable)"
        try:
            found = subprocess.run([name, "-c", asking], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return found.stdout.strip()
    wanted = "version" if is_newest else host.pinned
    raise LookupError(
        f"Python {wanted} with the module {host.python_has} is on the PATH (Debian has it in "
        "libpython3-testsuite)"
    )


def environment(host: Host, is_newest: bool) -> Path:
    """Return the Python of a virtual environment that has the program and the packages that its
    suite needs. This environment also sees the packages of `ours`.
    """
    chosen = interpreter(host, is_newest)
    below = ours(chosen)
    name = f"{host.name}-newest" if is_newest else f"{host.name}-{host.pinned}"
    python = VENVS / name / "bin" / "python"
    if not python.exists():
        subprocess.run([chosen, "-m", "venv", "--without-pip", str(VENVS / name)], check=True)
    see = f"import site; site.addsitedir({str(site_of(below))!r})\n"
    (site_of(python) / "ours.pth").write_text(see)
    pip = [str(below), *PIP, "--python", str(python), *INSTALL]
    wanted = [host.package if is_newest else f"{host.package}=={host.pinned}"]
    eager = ["--upgrade"] if is_newest else []
    packages = [*wanted, *host.also] if host.package else host.also
    subprocess.run([*pip, *eager, *packages], check=True)
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "-e", str(ROOT)], check=True)
    return python


def ours(interpreter: str) -> Path:
    """Return the Python of an environment with Phalanx, its dependencies and a recent pip.

    The environment is made once for each version of Python, because finding the dependencies takes
    most of the time of a program's installation.
    """
    asking = "import sys; print('ours-%d.%d' % sys.version_info[:2])"
    name = subprocess.check_output([interpreter, "-c", asking], text=True).strip()
    python, is_whole = VENVS / name / "bin" / "python", VENVS / name / "whole"
    if not is_whole.exists():
        subprocess.run([interpreter, "-m", "venv", "--clear", str(VENVS / name)], check=True)
        subprocess.run([str(python), *PIP, *INSTALL, "--upgrade", "pip"], check=True)
        subprocess.run([str(python), *PIP, *INSTALL, *BUILDERS, "-e", str(ROOT)], check=True)
        is_whole.touch()
    return python


def site_of(python: Path) -> Path:
    """Return the directory of a Python's packages."""
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(subprocess.check_output([str(python), "-c", where], text=True).strip())


def run(host: Host, is_newest: bool) -> Outcome:
    """Install and run a suite."""
    python = environment(host, is_newest)
    asking = f"from importlib.metadata import version; print(version({host.package!r}))"
    if not host.package:
        asking = "import platform; print(platform.python_version())"
    version = subprocess.check_output([str(python), "-c", asking], text=True).strip()
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-c", str(HERE / "suites" / "pytest.ini"), f"--junitxml={report}"]
        command += [word.replace("{site}", str(site_of(python))) for word in host.arguments]
        path = f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        env = {**os.environ, "HOME": scratch, "TMPDIR": scratch, "PATH": path, **host.env}
        for name in ("PHALANX_ADDRESS", "XDG_RUNTIME_DIR"):
            env.pop(name, None)
        in_time = finish(command, env=env, cwd=scratch)
        found = _outcome(version, report)
    unended = [] if in_time else [f"it did not end within {LIMIT_S} s"]
    return replace(found, failed=[*found.failed, *unended])


def finish(command: list[str], **more: Any) -> bool:
    """Run a command to its end. Returns whether it ended in time.

    At the limit, pytest is interrupted, so that it still reports the tests that ran.
    """
    with subprocess.Popen(command, **more) as suite:
        try:
            suite.wait(LIMIT_S)
            return True
        except subprocess.TimeoutExpired:
            suite.send_signal(signal.SIGINT)
        try:
            suite.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            suite.kill()
    return False


def _outcome(version: str, report: Path) -> Outcome:
    cases = list(ET.parse(report).getroot().iter("testcase")) if report.exists() else []
    bad = [one for one in cases if one.find("failure") is not None or one.find("error") is not None]
    skipped = [one for one in cases if one.find("skipped") is not None]
    failed = sorted({f"{one.get('classname', '')}::{one.get('name', '')}" for one in bad})
    passed = len(cases) - len(bad) - len(skipped)
    total = passed + len(failed)
    if not total:
        why = [one.get("message", "") for case in skipped for one in case.iter("skipped")]
        failed = [": ".join(["no test ran", *why[:1]])]
    return Outcome(
        version=version,
        passed=passed,
        total=total,
        skipped=len(skipped),
        failed=failed,
    )


def heed_interrupts() -> None:
    """Stop ignoring SIGINT, so that suites start as they do in a terminal.

    A shell makes background programs ignore SIGINT, and so everything that they start. submitit's
    tests, for one, cancel jobs by that signal.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


def main() -> int:
    """Run the chosen hosts' suites; see the top of this module."""
    heed_interrupts()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "hosts", nargs="*", help="names of files or folders in hosts (default: all)"
    )
    parser.add_argument(
        "--newest", action="store_true", help="test the newest version instead of the pinned one"
    )
    chosen = parser.parse_args()
    files = sorted((HERE / "hosts").rglob("*.yaml"))
    known = sorted({name for file in files for name in (file.stem, file.parent.name)} - {"hosts"})
    for name in chosen.hosts:
        if name not in known:
            parser.error(f"there is no host {name!r}; there are: {', '.join(known)}")
    code, rows = 0, []
    for file in files:
        if chosen.hosts and not {file.stem, file.parent.name} & set(chosen.hosts):
            continue
        row, is_good = examine(read_host(file), chosen.newest)
        rows.append(row)
        code = code if is_good else 1
        print(row, flush=True)
    print("\n| host | version | what ran | passed | failed | skipped | installed and run in |")
    print("|---|---|---|---|---|---|---|")
    print("\n".join(rows))
    return code


def examine(host: Host, is_newest: bool) -> tuple[str, bool]:
    """Run a program's suite. Returns the program's row of the table, and whether all tests passed
    except those that the program's file explains.
    """
    began = time.monotonic()
    try:
        found = run(host, is_newest)
    except LookupError as missing:
        return f"| {host.name} | – | not run: no {missing} | | | | |", True
    except subprocess.CalledProcessError as broken:
        print(f"{host.name}: {broken}")
        return f"| {host.name} | – | not installed | | | | |", False
    is_good = True
    for test in found.failed:
        why = next((why for part, why in host.known.items() if part in test), None)
        print(f"{host.name}: {test}: {why or 'NOT EXPLAINED'}")
        is_good = is_good and why is not None
    passed, took_s = f"{found.passed} of {found.total}", time.monotonic() - began
    cells = (host.name, found.version, host.what, passed)
    counts = (len(found.failed), found.skipped, f"{took_s:.0f} s")
    return f"| {' | '.join(map(str, (*cells, *counts)))} |", is_good


if __name__ == "__main__":
    sys.exit(main())
