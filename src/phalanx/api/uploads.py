"""Uploads packages of jobs to the head."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from phalanx.api.packing import Packed, pack
from phalanx.model.jobs.spec import JobSpec
from phalanx.model.packages import Package
from phalanx.model.readable import size
from phalanx.protocol.requests.packages import PutPackage

PART_BYTES = 1 << 20


def with_packages(
    spec: JobSpec,
    runtime_env: Mapping[str, Any],
    ask: Callable[[PutPackage], int],
    say: Callable[[str], None],
) -> JobSpec:
    """Return a job with the directories and modules of its runtime environment as packages, which
    the head has then.

    `say` gets a line about each upload before it begins. Raises ValueError.
    """
    excludes = list(runtime_env.get("excludes") or ())
    wanted: list[tuple[str, str]] = []
    if directory := runtime_env.get("working_dir"):
        wanted.append(("working_dir", str(directory)))
    for module in runtime_env.get("py_modules") or ():
        place = next(iter(getattr(module, "__path__", ())), None) or getattr(
            module, "__file__", None
        )
        wanted.append(("py_module", str(place or module)))
    packages = []
    for kind, path in wanted:
        packed = pack(path, excludes, with_its_name=kind == "py_module")
        with packed.file:
            upload(path, packed, ask, say)
        packages.append(
            Package(sha256=packed.sha256, size=packed.size, kind=kind)  # type: ignore[arg-type]
        )
    if not packages:
        return spec
    return msgspec.structs.replace(spec, packages=tuple(packages))


def upload(
    path: str, packed: Packed, ask: Callable[[PutPackage], int], say: Callable[[str], None]
) -> None:
    """Upload a package, unless the head has it. An upload that was cut off goes on."""
    have = ask(PutPackage(packed.sha256, packed.size))
    if have >= packed.size:
        return
    count = len(packed.files)
    files = "1 file" if count == 1 else f"{count} files"
    say(f"uploading {path}: {size(packed.size)}, {files}")
    for name in packed.large():
        say(f"a large file is uploaded: {name}; .phalanxignore can leave it out")
    while have < packed.size:
        packed.file.seek(have)
        data = packed.file.read(min(PART_BYTES, packed.size - have))
        have = ask(PutPackage(packed.sha256, packed.size, have, data))
