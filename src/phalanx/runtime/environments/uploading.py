"""Uploads packages to the head: those of jobs, and those of the runtime environments of tasks and
actors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from phalanx.model.packages import PackageUri, read_uri
from phalanx.model.readable import size
from phalanx.protocol.requests.packages import PutPackage
from phalanx.runtime.environments.packing import (
    Content,
    Packed,
    contents,
    name_in_package,
    pack,
)

PART_BYTES = 1 << 20

Ask = Callable[[PutPackage], int]
Say = Callable[[str], None]


class NoPackagesError(ValueError):
    """The head takes no packages: it is the runtime of one program, on one machine."""


def upload(path: str, packed: Packed, ask: Ask, say: Say) -> None:
    """Upload a package, unless the head has it. An interrupted upload is continued.

    Raises NoPackagesError.
    """
    have = ask(PutPackage(packed.sha256, packed.size))
    if have < 0:
        raise NoPackagesError("a runtime that belongs to one program takes no packages")
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


class Uploads:
    """Uploads the directories and modules of the runtime environments of one process.

    A directory is packed again only if one of its files has another size or time.
    """

    def __init__(self, ask: Ask, say: Say) -> None:
        self._ask = ask
        self._say = say
        self._takes_packages = True
        self._known: dict[tuple[str, str, tuple[str, ...]], tuple[list[Content], PackageUri]] = {}

    def uploaded(self, environment: Mapping[str, Any]) -> dict[str, Any]:
        """Upload the paths of a runtime environment. Returns the environment with URIs of packages
        in place of paths. If the head takes no packages, the environment is returned unchanged.

        Raises ValueError for a package that is too large, and for a file that cannot be read.
        """
        found = dict(environment)
        if not self._takes_packages:
            return found
        excludes = list(found.get("excludes") or ())
        try:
            if found.get("working_dir"):
                found["working_dir"] = self._uri(found["working_dir"], "working_dir", excludes)
            if found.get("py_modules"):
                found["py_modules"] = [
                    self._uri(path, "py_modules", excludes) for path in found["py_modules"]
                ]
        except NoPackagesError:
            self._takes_packages = False
            return dict(environment)
        found.pop("excludes", None)
        return found

    def _uri(self, path: str, field: str, excludes: Sequence[str]) -> str:
        if read_uri(path) is not None:
            return path
        is_module = field == "py_modules"
        files = contents(path, excludes, with_its_name=is_module)
        about = (path, field, tuple(excludes))
        known = self._known.get(about)
        if known is None or known[0] != files:
            packed = pack(path, excludes, with_its_name=is_module)
            with packed.file:
                upload(path, packed, self._ask, self._say)
            name = name_in_package(path) if is_module else ""
            known = files, PackageUri(packed.sha256, packed.size, name)
            self._known[about] = known
        return str(known[1])
