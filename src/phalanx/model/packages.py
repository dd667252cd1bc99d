"""Packages: the directories and modules that a job's submitter uploads."""

from __future__ import annotations

from typing import Literal

import msgspec

from phalanx.model.environments import Environment

MOST_BYTES = 500 << 20
"""The most bytes of a package, as in Ray."""
MARK = ".phalanx-packages"
"""The file in a member's directory that names the packages that are unpacked there."""
MODULES = ".py_modules"
"""The directory, in a member's directory, of unpacked modules."""


class Package(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One uploaded zip file. A package of the kind "working_dir" is unpacked into the directory in
    which a member runs; one of the kind "py_module" beside it, on the path of modules.
    """

    sha256: str
    size: int
    kind: Literal["working_dir", "py_module"]

    @property
    def file(self) -> str:
        """The name of the zip file among the files of a job."""
        return f"{self.sha256}.zip"


class Preparation(msgspec.Struct, frozen=True):
    """The description of what a node prepares for a member, which is a file of the job. `mark`: the
    name of the packages together.
    """

    environment: Environment | None
    packages: tuple[Package, ...]
    mark: str
