"""The manual pages of all commands."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from phalanx.cli.registry import ENTRIES

from .loading import load

PAGES: dict[str, str] = load("man").pages()


def test_each_command_has_a_page_that_the_overview_names() -> None:
    assert set(PAGES) == {"phalanx.1", *(f"phalanx-{name}.1" for name in ENTRIES)}
    for name in ENTRIES:
        shown = f"phalanx-{name}".replace("-", "\\-")
        assert f".BR {shown} (1)" in PAGES["phalanx.1"]


def test_a_page_has_the_options_of_its_command() -> None:
    assert ".B \\-\\-num\\-cpus" in PAGES["phalanx-start.1"]
    assert ".SS phalanx token rotate" in PAGES["phalanx-token.1"]


def test_text_that_looks_like_a_request_of_troff_is_escaped() -> None:
    requests = {"TH", "SH", "SS", "PP", "TP", "B", "BR", "I", "ad", "nh"}
    for text in PAGES.values():
        assert set(re.findall(r"^[.'](\w+)", text, re.MULTILINE)) <= requests
    assert load("man").escaped(".so /etc\n'x\\y") == "\\&.so /etc\n\\&'x\\ey"
    assert load("man").escaped("2×") == "2\\[u00D7]"


@pytest.mark.skipif(not shutil.which("groff"), reason="needs groff")
def test_groff_draws_every_page(tmp_path: Path) -> None:
    for name, text in PAGES.items():
        done = subprocess.run(
            ["groff", "-man", "-Tascii", "-wmac", "-wescape"],
            input=text.encode("ascii"), capture_output=True, check=False,
        )  # fmt: skip
        lines = done.stderr.decode().splitlines()
        assert [line for line in lines if "can't break line" not in line] == [], name
        assert done.returncode == 0
