"""Errors about files below a home directory that cannot be made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from phalanx.adapters.ray.jobs import files
from phalanx.cli.ending import exiting
from phalanx.cli.readable_errors import sentence
from phalanx.dashboard import serve
from phalanx.errors import SystemFailureError
from phalanx.runtime.daemons import cluster_token

MAKERS: list[Callable[[], object]] = [
    lambda: cluster_token.ensure(cluster_token.default_path()),
    serve.place,
    files.directory,
]


@pytest.fixture
def no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file" / "home"))
    monkeypatch.delenv("PHALANX_TOKEN_FILE", raising=False)


@pytest.mark.usefixtures("no_home")
@pytest.mark.parametrize("make", MAKERS)
def test_a_home_that_cannot_be_made_is_named(make, capsys):
    with pytest.raises(
        SystemFailureError, match=r"/file/home/\.phalanx.*: Not a directory\. .*HOME"
    ):
        make()
    with pytest.raises(SystemExit), exiting():
        make()
    assert "Traceback" not in capsys.readouterr().err


def test_a_full_disk_is_named_with_the_token(tmp_path, monkeypatch):
    def full(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cluster_token, "write_draft", full)
    with pytest.raises(SystemFailureError, match=r"cannot be written to .*: No space left on"):
        cluster_token.ensure(str(tmp_path / "token"))


def test_an_error_about_a_file_is_a_sentence():
    assert sentence(PermissionError(13, "Permission denied", "/x")) == (
        "/x cannot be used: Permission denied"
    )
