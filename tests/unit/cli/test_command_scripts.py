"""The scripts that `phalanx compat slurm install` and `phalanx compat ray install` write."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from phalanx.adapters.ray.command import main as ray
from phalanx.adapters.slurm.commands import main as slurm
from phalanx.cli.ending import Ended

Install = Callable[[Path], None]


@pytest.fixture(params=[slurm.install, ray.install])
def install(request: pytest.FixtureRequest) -> Install:
    found: Callable[..., None] = request.param
    return lambda directory: found(directory, force=False)


def refusal(install: Install, directory: Path, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(Ended):
        install(directory)
    return capsys.readouterr().err


def test_scripts_replace_their_earlier_versions(tmp_path, install, capsys):
    for _ in range(2):
        install(tmp_path / "bin")
    assert all(os.access(file, os.X_OK) for file in (tmp_path / "bin").iterdir())


def test_a_file_in_place_of_the_directory_is_refused(tmp_path, install, capsys):
    (tmp_path / "ck.sh").touch()
    for directory in (tmp_path / "ck.sh", tmp_path / "ck.sh" / "bin"):
        assert f"{directory} is not a directory: " in refusal(install, directory, capsys)


def test_a_directory_without_permission_is_named(tmp_path, install, capsys, monkeypatch):
    def denied(path: Path, *_: object, **__: object) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    for call in ("read_text", "mkdir", "write_text"):
        with monkeypatch.context() as patched:
            patched.setattr(Path, call, denied)
            said = refusal(install, tmp_path / "bin", capsys)
        assert "cannot be installed into" in said
        assert "Permission denied. Give a directory into which you may write" in said


def test_a_program_of_another_system_is_not_overwritten(tmp_path, install, capsys):
    for name in ("sbatch", "ray"):
        (tmp_path / name).write_bytes(b"\x7fELF\xff")
    assert "exists and is not Phalanx's: --force overwrites it" in refusal(
        install, tmp_path, capsys
    )
