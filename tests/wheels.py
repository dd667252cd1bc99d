"""Wheels that a test builds, so that an installer needs no network."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any


def build_wheel(directory: Path, name: str, text: str, version: str = "1.0") -> None:
    """Write a wheel of a module `name`, whose constant TEXT is `text`."""
    info = f"{name}-{version}.dist-info"
    directory.mkdir(exist_ok=True)
    with zipfile.ZipFile(directory / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", f"TEXT = {text!r}\n")
        about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        file.writestr(f"{info}/METADATA", about)
        tag = "Root-Is-Purelib: true\nTag: py3-none-any\n"
        file.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: test\n{tag}")
        file.writestr(f"{info}/RECORD", "")


def pip_of(directory: Path, *packages: str) -> dict[str, Any]:
    """Return the field `pip` of a runtime environment that uses only packages from this
    directory.
    """
    options = ["--no-index", "--find-links", str(directory)]
    return {"pip": {"packages": list(packages), "pip_install_options": options}}
