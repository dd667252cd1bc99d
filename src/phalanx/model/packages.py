"""Packages: the directories and modules that jobs and drivers upload."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from phalanx.model.environments import Environment

MOST_BYTES = 500 << 20
"""The most bytes of a package, as in Ray."""
MARK = ".phalanx-packages"
"""The file in a member's directory that names the packages that are unpacked there."""
MODULES = ".py_modules"
"""The directory with the unpacked modules, inside a member's directory."""
VARIABLE = "PHALANX_PACKAGES"
"""The variable of a worker with the URIs of the packages that it needs, as JSON."""
CONTENT = "content"
"""The directory with the unpacked files of a package, inside the package's directory in the
cache.
"""

_URI = re.compile("phalanx-package:([0-9a-f]{64}):([0-9]{1,12}):(.*)", re.DOTALL)


class Package(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One uploaded zip file. A package of the kind "working_dir" is unpacked into the directory in
    which a member runs. A package of the kind "py_module" is unpacked beside that directory, on the
    path of modules.
    """

    sha256: str
    size: int
    kind: Literal["working_dir", "py_module"]

    @property
    def file(self) -> str:
        """The name of the zip file among the files of a job."""
        return f"{self.sha256}.zip"


class Preparation(msgspec.Struct, frozen=True):
    """The description of what a node prepares for a member. It is a file of the job. `mark`: the
    common name of all packages. `images`: the images that processes of the member name.
    """

    environment: Environment | None
    packages: tuple[Package, ...]
    mark: str
    images: tuple[Environment, ...] = ()


def mark_of(packages: Sequence[Package]) -> str:
    """Return a short common name of all packages of a job; "-" for a job without packages."""
    if not packages:
        return "-"
    import hashlib  # slow to import, and most commands hash nothing

    return hashlib.sha256(msgspec.json.encode(packages)).hexdigest()[:32]


class PackageUri(NamedTuple):
    """The name of an uploaded package, which replaces a path in a runtime environment."""

    sha256: str
    size: int
    name: str
    """The name of a module in its package; "" if the whole package is on the path of modules. If
    the URI stands for the working directory that a driver has inherited from its job: the mark of
    the job's packages, by which workers recognize that directory.
    """

    def __str__(self) -> str:
        return f"phalanx-package:{self.sha256}:{self.size}:{self.name}"


def read_uri(text: Any) -> PackageUri | None:
    """Return the package that a field of a runtime environment names; None for a path."""
    found = _URI.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else PackageUri(found[1], int(found[2]), found[3])


def uris_in(runtime_env: Mapping[str, Any]) -> list[PackageUri]:
    """Return the uploaded packages that a runtime environment names."""
    fields = [runtime_env.get("working_dir"), *(runtime_env.get("py_modules") or ())]
    return [uri for one in fields if (uri := read_uri(one)) is not None]


def written_uris(uris: Sequence[PackageUri]) -> str:
    """Return packages as the text of VARIABLE."""
    return json.dumps([str(uri) for uri in uris])


def read_uris(text: str) -> list[PackageUri]:
    """Return the packages in the text of VARIABLE. Raises ValueError for any other text."""
    found = [read_uri(one) for one in json.loads(text)]
    if None in found:
        raise ValueError(f"{text!r} names something that is no package.")
    return [uri for uri in found if uri is not None]
