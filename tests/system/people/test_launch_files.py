"""phalanx-launch runs only files that nobody except root can change: its own files, and those of
the program that it starts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest
from tests.system.cli.conftest import COMMAND
from tests.system.people.system_machine import ACCOUNTS, KEY, NODE_USER, SystemMachine, need_root

from phalanx.runtime.launch import program

ANA = ACCOUNTS["ana"]
VENV, HOME = "/run/venv", "/run/home-of-ana"
CHECKED = f"{VENV}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
REAL = sys.base_prefix + f"/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
CHECK = """
import json, os, shutil, subprocess, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import program
python, venv, site, home = sys.argv[2:6]
cases = json.loads(sys.argv[6])
def make():
    for old in (venv, home):
        shutil.rmtree(old, ignore_errors=True)
    os.makedirs(site)
    os.mkdir(home)
    os.mkdir(f"{venv}/bin")
    os.symlink(python, f"{venv}/bin/python")
    with open(f"{venv}/pyvenv.cfg", "w") as file:
        file.write(f"home = {os.path.dirname(python)}\\n")
    with open(f"{site}/these.pth", "w") as file:
        file.write("\\n".join(sys.argv[7:]) + "\\n")
    with open(f"{site}/module.py", "w") as file:
        file.write("")
os.umask(0o022)
known = set()
said = {}
for name, script in cases.items():
    make()
    subprocess.run(["sh", "-ec", script], cwd=venv, check=True)
    seen = set(known)
    try:
        program.check_python(f"{venv}/bin/python", seen)
        said[name] = "trusted"
    except (OSError, ValueError) as error:
        said[name] = str(error)
    known |= {path for path in seen if not path.startswith(("/run", "/tmp"))}
print(json.dumps(said))
"""
OF_OTHERS: dict[str, tuple[str, str]] = {
    "a module": (
        "chown {ana} {site}/module.py",
        "module.py belongs to the account with the number",
    ),
    "a module of the group": ("chmod g+w {site}/module.py", "module.py can be changed"),
    "a module of all": ("chmod o+w {site}/module.py", "module.py can be changed"),
    "a module of root's group with another owner": ("chown {ana}:0 {site}/module.py", "module.py"),
    "a directory": ("chmod 777 {site}", "site-packages can be changed"),
    "a directory with the sticky bit": ("chmod 1777 {site}", "site-packages can be changed"),
    "an empty directory deep below": ("mkdir -p -m 777 {site}/a/b/c; chmod 777 {site}/a/b/c", "c "),
    "compiled code": (
        "mkdir {site}/__pycache__; touch {site}/__pycache__/m.pyc; "
        "chown {ana} {site}/__pycache__/m.pyc",
        "m.pyc belongs",
    ),
    "the configuration": ("chown {ana} pyvenv.cfg", "pyvenv.cfg belongs"),
    "the directory of the Python": ("chown {ana} bin", "bin belongs"),
    "the directory above": ("chown {ana} .", "/run/venv belongs"),
    "the link to the Python": ("chown -h {ana} bin/python", "bin/python belongs"),
    "a Python of its own": (
        "rm bin/python; cp {python} bin/python; chown {ana} bin/python",
        "bin/python belongs",
    ),
    "a link out of the tree": (
        "touch {home}/evil.py; chown -R {ana} {home}; ln -s {home}/evil.py {site}/evil.py",
        f"{HOME} belongs",
    ),
    "a link over a link": (
        "chown {ana} {home}; mkdir ways; ln -s {home} ways/on; ln -s ../ways/on/x {site}/x; "
        "mv ways {site}; ln -s {site}/ways/on/y {site}/y",
        f"{HOME} belongs",
    ),
    "a place named by a file": (
        "chown {ana} {home}; echo {home} >> {site}/these.pth",
        f"{HOME} belongs",
    ),
    "a place that is not there": (
        "echo {home}/later >> {site}/no.pth; mkdir -m 777 lib64",
        "lib64",
    ),
    "an empty directory for libraries": (
        "mv lib elsewhere; mkdir lib; chmod 777 lib",
        "/lib can be changed",
    ),
}


@pytest.fixture(scope="module")
def machine() -> Iterator[SystemMachine]:
    need_root()
    made = SystemMachine()
    try:
        yield made
    finally:
        made.end()


def test_files_that_another_account_can_change_are_refused(machine: SystemMachine) -> None:
    names = {"ana": str(ANA), "site": CHECKED, "home": HOME, "python": REAL}
    cases = {name: script.format(**names) for name, (script, _) in OF_OTHERS.items()}
    cases = {"nothing changed": "true", **cases, "nothing changed again": "true"}
    said = checked(machine, cases)
    assert said.pop("nothing changed") == said.pop("nothing changed again") == "trusted"
    wrong = {name: text for name, text in said.items() if OF_OTHERS[name][1] not in text}
    assert not wrong and "must be root's, and writable by root alone" in said["a module"]


def checked(machine: SystemMachine, cases: dict[str, str]) -> dict[str, str]:
    """Change a Python environment as each of the cases says; return for each what root's program
    says about it. All changes except the last one are undone.
    """
    words = [program.__file__, sys.executable, VENV, CHECKED, HOME, json.dumps(cases), *places()]
    said: dict[str, str] = json.loads(machine.python("root", CHECK, *words))
    return said


def test_the_administrator_is_told_at_the_installation(machine: SystemMachine) -> None:
    install = (f"{VENV}/bin/python", "-c", COMMAND, "install", "--system", "--launch")
    checked(machine, {"trusted": "true"})
    assert "refuses" not in machine.run("root", *install).stdout
    checked(machine, {"changed": f"chown {ANA} {CHECKED}/module.py"})
    said = machine.run("root", *install)
    assert said.returncode == 0, said.stderr
    assert f"phalanx-launch refuses {VENV}/bin/python: {CHECKED}/module.py belongs" in said.stdout


def places() -> list[str]:
    """Return the directories from which these tests load modules."""
    return [path for path in sys.path if path.endswith(("/site-packages", "/src"))]


def test_root_is_told_and_nobody_is_served(machine: SystemMachine) -> None:
    written = machine.run("root", "/bin/sh", "-c", f"umask 022; echo {'1' * 64} > {KEY}")
    assert written.returncode == 0
    place = "/run/place"
    copied = f"mkdir {place}; cp {program.__file__} {place}/launch.py; chown {ANA} {place}"
    assert machine.run("root", "/bin/sh", "-ec", copied).returncode == 0
    words = ("--user", NODE_USER, "--key", KEY, "--python", sys.executable, "--run", "/run/not")
    script = (sys.executable, "-I", "-S", f"{place}/launch.py", *words, "--state", "/run/not-state")
    ended = machine.run("root", *script)
    assert ended.returncode == 2 and f"{place} belongs to the account" in ended.stderr
    with pytest.raises(AssertionError, match="/bin/true"):
        machine.start_launch(python="/bin/true", run="/run/not", state="/run/not-state")
    assert machine.run("root", "/bin/ls", "/run/not").returncode != 0
