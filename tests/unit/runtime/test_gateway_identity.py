"""The certificate of a head: it is made one time, and is only read from a private file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from phalanx.errors import AuthenticationError
from phalanx.runtime.gateway.tls import Identity

pytest.importorskip("cryptography")


def test_the_next_gateway_shows_the_same_certificate(tmp_path: Path) -> None:
    path = tmp_path / "head.pem"
    first = Identity(str(path), "one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and os.listdir(tmp_path) == ["head.pem"]
    assert Identity(str(path), "two").fingerprint == first.fingerprint
    path.unlink()
    assert Identity(str(path), "one").fingerprint != first.fingerprint


@pytest.mark.parametrize("how", ["open", "link", "directory", "empty", "no key"])
def test_a_file_that_cannot_be_trusted_is_refused(tmp_path: Path, how: str) -> None:
    path = tmp_path / "head.pem"
    Identity(str(path), "one")
    text = path.read_text()
    if how == "open":
        path.chmod(0o640)
    elif how == "link":
        path.rename(tmp_path / "real")
        path.symlink_to("real")
    elif how == "directory":
        path.unlink()
        path.mkdir()
    else:
        path.write_text("" if how == "empty" else text[text.index("-----BEGIN CERTIFICATE") :])
    with pytest.raises(AuthenticationError, match=r"head\.pem"):
        Identity(str(path), "one")
