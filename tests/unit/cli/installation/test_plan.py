"""The steps of an installation, and what they change in a directory."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from phalanx.cli.installation.plan import Machine, Plan, Wanted, install, uninstall, units_in
from phalanx.cli.installation.steps import Directory, File, Removal, Run

PYTHON = shutil.which("python3") or "/usr/bin/python3"
MACHINE = Machine(
    python=PYTHON,
    user="ann",
    home="/home/ann",
    has_account=False,
    groups=frozenset({"video", "users"}),
    lingers=False,
)


def paths(plan: Plan) -> list[str]:
    return [step.path for step in plan.steps if isinstance(step, File)]


def words(plan: Plan) -> list[str]:
    return [" ".join(step.words) for step in plan.steps if isinstance(step, Run)]


def text_of(plan: Plan, ending: str) -> str:
    (text,) = [s.text for s in plan.steps if isinstance(s, File) and s.path.endswith(ending)]
    return text


def test_a_machine_gets_an_account_directories_and_a_unit_for_each_part() -> None:
    plan = install(Wanted(is_system=True, has_dashboard=True), MACHINE)
    assert words(plan) == [
        "useradd --system --user-group --home-dir /var/lib/phalanx --no-create-home "
        "--shell /usr/sbin/nologin --groups video phalanx",
        "systemctl daemon-reload",
        "systemctl enable --now phalanx-head.service phalanx-node.service "
        "phalanx-dashboard.service",
    ]
    assert [step for step in plan.steps if isinstance(step, Directory)] == [
        Directory("/var/lib/phalanx", 0o700, "phalanx"),
        Directory("/var/lib/phalanx/.phalanx", 0o700, "phalanx"),
        Directory("/etc/phalanx", 0o755),
        Directory("/etc/systemd/system", 0o755),
    ]
    assert paths(plan) == [
        "/etc/phalanx/config.toml",
        "/etc/systemd/system/phalanx-head.service",
        "/etc/systemd/system/phalanx-node.service",
        "/etc/systemd/system/phalanx-dashboard.service",
    ]
    assert "User=phalanx\n" in text_of(plan, "head.service")
    assert "Delegate=yes\n" in text_of(plan, "node.service")


def test_people_get_their_own_jobs_through_a_program_of_root() -> None:
    wanted = Wanted(is_system=True, launch="#!/usr/bin/python3\n")
    plan = install(wanted, MACHINE)
    assert "system = true\nshared = true\n" in text_of(plan, "config.toml")
    (program,) = [s for s in plan.steps if isinstance(s, File) and s.path.endswith("-launch")]
    assert (program.path, program.mode) == ("/usr/local/sbin/phalanx-launch", 0o755)
    assert (
        program.description("")
        == "write the file /usr/local/sbin/phalanx-launch (mode 0755, 1 lines)"
    )
    unit = text_of(plan, "launch.service")
    assert "User=" not in unit
    assert "KillMode=process\n" in unit
    assert "ConditionPathExists=/etc/phalanx/launch.pub\n" in unit
    assert "--groups /sys/fs/cgroup/system.slice/phalanx-jobs.service\n" in unit
    assert "Requires=phalanx-jobs.service\nAfter=phalanx-jobs.service\n" in unit
    jobs = text_of(plan, "jobs.service")
    assert "Delegate=yes\n" in jobs
    assert "Restart" not in jobs, "its end ends all jobs"
    assert "Copy /var/lib/phalanx/.phalanx/launch/launch.pub" in plan.notes[0]
    joins = install(wanted._replace(address="h:1"), MACHINE)
    assert "shared" not in text_of(joins, "config.toml")


def test_a_known_account_is_not_made_again() -> None:
    plan = install(Wanted(is_system=True), MACHINE._replace(has_account=True))
    assert words(plan)[0] == "systemctl daemon-reload"


def test_a_machine_that_joins_gets_only_a_node_and_is_told_of_the_token() -> None:
    plan = install(Wanted(True, address="10.0.0.1:6380", host="10.0.0.2"), MACHINE)
    assert [path for path in paths(plan) if "head" in path] == []
    assert 'address = "10.0.0.1:6380"\nhost = "10.0.0.2"\n' in text_of(plan, "config.toml")
    assert f"ExecStart={PYTHON} -m phalanx start --block\n" in text_of(plan, "node.service")
    assert "phalanx-head" not in text_of(plan, "node.service")
    assert "token at /var/lib/phalanx/.phalanx/token, mode 0600, owned by phalanx" in plan.notes[0]


def test_a_user_needs_no_root_and_hears_of_lingering() -> None:
    plan = install(Wanted(is_system=False), MACHINE)
    assert {path.rpartition("/")[0] for path in paths(plan)} == {
        "/home/ann/.phalanx", "/home/ann/.config/systemd/user",
    }  # fmt: skip
    assert "User=" not in text_of(plan, "node.service")
    assert "WantedBy=default.target" in text_of(plan, "node.service")
    assert all(line.startswith("systemctl --user ") for line in words(plan))
    assert any("loginctl enable-linger ann" in note for note in plan.notes)
    kept = install(Wanted(is_system=False), MACHINE._replace(lingers=True))
    assert not any("linger" in note for note in kept.notes)


@pytest.mark.parametrize("is_system", [True, False])
def test_removing_undoes_what_installing_wrote_and_keeps_the_rest(
    is_system: bool, tmp_path: Path
) -> None:
    root, machine = str(tmp_path), MACHINE._replace(home="/home/ann")
    for step in install(Wanted(is_system, has_dashboard=True), machine).steps:
        step.take(root)
    present = units_in(root, is_system, machine)
    assert len(present) == 3
    removed = uninstall(is_system, machine, present)
    assert sum(isinstance(step, Removal) for step in removed.steps) == 3
    for step in removed.steps:
        step.take(root)
    assert units_in(root, is_system, machine) == []
    assert uninstall(is_system, machine, []).steps == []
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["config.toml"]
    assert "config.toml stays" in removed.notes[0]


def test_steps_set_modes_and_keep_a_configuration(tmp_path: Path) -> None:
    root = str(tmp_path)
    Directory("/a/b", 0o700).take(root)
    assert (tmp_path / "a/b").stat().st_mode & 0o777 == 0o700
    old_umask = os.umask(0o077)
    try:
        File("/a/b/c", 0o644, "one").take(root)
    finally:
        os.umask(old_umask)
    assert (tmp_path / "a/b/c").stat().st_mode & 0o777 == 0o644
    File("/a/b/c", 0o644, "two", keeps=True).take(root)
    assert (tmp_path / "a/b/c").read_text() == "one"
    File("/a/b/c", 0o600, "two").take(root)
    assert (tmp_path / "a/b/c").read_text() == "two"
    Removal("/a/b/c").take(root)
    Removal("/a/b/c").take(root)
    assert list((tmp_path / "a/b").iterdir()) == []


def test_a_command_that_fails_gives_its_last_words() -> None:
    with pytest.raises(RuntimeError, match=r"failed \(3\): second"):
        Run(("sh", "-c", "echo first >&2; echo second >&2; exit 3")).take("")
    Run(("sh", "-c", "exit 3")).take("/elsewhere")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
@pytest.mark.parametrize("is_system", [True, False])
@pytest.mark.parametrize("address", ["", "10.0.0.1:6380"])
def test_systemd_finds_no_fault_in_the_units(is_system: bool, address: str, tmp_path: Path) -> None:
    machine = MACHINE._replace(home="/home/ann")
    wanted = Wanted(is_system, address, has_dashboard=True, launch="#\n" if is_system else "")
    for step in install(wanted, machine).steps:
        step.take(str(tmp_path))
    units = sorted(str(path) for path in tmp_path.rglob("*.service"))
    scope = () if is_system else ("--user",)
    done = subprocess.run(
        ["systemd-analyze", *scope, "verify", "--man=no", "--generators=no", *units],
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
