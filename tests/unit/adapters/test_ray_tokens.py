"""Ray's token variables: which token they name, and when that is an error."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from phalanx.adapters.ray import tokens
from phalanx.errors import AuthenticationError
from phalanx.runtime.daemons import cluster_token


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (tokens.MODE, tokens.TOKEN, tokens.PATH):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".ray").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("variables", "in_usual_file", "found"),
    [
        ({}, "usual", ""),
        ({"MODE": "disabled", "TOKEN": "given"}, "usual", ""),
        ({"TOKEN": "given"}, "usual", ""),
        ({"MODE": "token"}, "", ""),
        ({"MODE": "token"}, " usual\n", "usual"),
        ({"MODE": "TOKEN", "TOKEN": " given "}, "usual", "given"),
        ({"MODE": "token", "PATH": "file"}, "usual", "in-file"),
        ({"MODE": "token", "TOKEN": "given", "PATH": "nowhere"}, "usual", "given"),
        ({"MODE": "token", "TOKEN": "", "PATH": "file"}, "usual", "in-file"),
    ],
)
def test_the_token(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    in_usual_file: str,
    found: str,
) -> None:
    (home / "file").write_text("in-file\n")
    if in_usual_file:
        (home / ".ray" / "auth_token").write_text(in_usual_file)
    for name, value in variables.items():
        value = str(home / value) if name == "PATH" else value
        monkeypatch.setenv(getattr(tokens, name), value)
    assert tokens.auth_token() == found


def test_a_named_file_must_have_a_token(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tokens.MODE, "token")
    monkeypatch.setenv(tokens.PATH, str(home / "missing"))
    with pytest.raises(AuthenticationError, match="cannot be read"):
        tokens.auth_token()
    (home / "missing").touch()
    with pytest.raises(AuthenticationError, match="is empty"):
        tokens.auth_token()


def test_a_mode_that_asks_for_a_token_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tokens.needed_token() == "" and tokens.cluster_token_file() is None
    monkeypatch.setenv(tokens.MODE, "token")
    with pytest.raises(AuthenticationError, match="there is no token"):
        tokens.cluster_token_file()
    monkeypatch.setenv(tokens.MODE, "tokens")
    with pytest.raises(AuthenticationError, match="must be token or disabled"):
        tokens.auth_token()


def test_machines_with_one_token_of_rays_have_one_cluster_token(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(tokens.MODE, "token")
    found = []
    for token in ("one", "one", "other"):
        monkeypatch.setenv(tokens.TOKEN, token)
        path = tokens.cluster_token_file()
        assert path is not None and stat.S_IMODE(Path(path).stat().st_mode) == 0o600
        assert token not in Path(path).read_text()
        found.append(cluster_token.read(path))
    assert found[0] == found[1] != found[2]
