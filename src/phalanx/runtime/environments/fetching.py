"""Packages on a node for its workers: fetched once from the head, and unpacked into the cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Sequence

from phalanx.model.environments import READY
from phalanx.model.packages import CONTENT, PackageUri
from phalanx.protocol.requests.packages import PackageRead, ReadPackage
from phalanx.runtime.environments.cache import Cache
from phalanx.runtime.environments.unpacking import unpack

Ask = Callable[[ReadPackage], PackageRead]


class FetchError(Exception):
    """A package could not be fetched. The text says why."""


def fetch(packages: Sequence[PackageUri], directory: str, ask: Ask) -> None:
    """Put packages into the cache in this directory, and mark them as used until this process ends.

    Raises FetchError, UnpackError and OSError.
    """
    for package in packages:
        _hold(_prepared(Cache(directory, say=lambda text: None), package, ask))


def _prepared(cache: Cache, package: PackageUri, ask: Ask) -> str:
    if cache.has(package.sha256):
        return cache.place(package.sha256)

    def build(place: str) -> None:
        archive, content = os.path.join(place, "package.zip"), os.path.join(place, CONTENT)
        _download(package.sha256, archive, ask)
        os.mkdir(content, 0o700)
        unpack(archive, content)
        os.unlink(archive)

    return cache.prepare(package.sha256, build)


def _download(sha256: str, path: str, ask: Ask) -> None:
    digest, offset, total = hashlib.sha256(), 0, 1
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        while offset < total:
            part = ask(ReadPackage(sha256, offset))
            if part.size < 0 or not part.data:
                raise FetchError(
                    f"the head does not have package {sha256} any more; the program that uploaded "
                    "it must begin again"
                )
            file.write(part.data)
            digest.update(part.data)
            offset, total = offset + len(part.data), part.size
    if digest.hexdigest() != sha256:
        raise FetchError(f"the content of package {sha256} has another SHA-256")


def _hold(place: str) -> None:
    """Mark a package as used while this process runs, even after it has executed another
    program.
    """
    fd = os.open(os.path.join(place, READY), os.O_RDONLY)
    os.set_inheritable(fd, True)
    fcntl.flock(fd, fcntl.LOCK_SH)
