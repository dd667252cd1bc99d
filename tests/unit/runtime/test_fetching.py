"""Packages in the cache of a node: they are fetched in parts, checked, and unpacked one time."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import pytest

from phalanx.model.environments import VARIABLE
from phalanx.model.packages import CONTENT, MARK, PackageUri
from phalanx.protocol.requests.packages import PackageRead, ReadPackage
from phalanx.runtime.environments.fetching import FetchError, fetch
from phalanx.runtime.environments.package_paths import is_directory_of, local_paths
from phalanx.runtime.environments.unpacking import UnpackError

PART = 30


def archive(**files: str) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as made:
        for name, text in files.items():
            made.writestr(f"{name}.py", text)
    return written.getvalue()


class Head:
    """A head with packages, which counts the requests for them."""

    def __init__(self, *packages: bytes) -> None:
        self.packages = {hashlib.sha256(one).hexdigest(): one for one in packages}
        self.asked = 0

    def uris(self) -> list[PackageUri]:
        return [PackageUri(name, len(data), "") for name, data in self.packages.items()]

    def read(self, request: ReadPackage) -> PackageRead:
        self.asked += 1
        data = self.packages.get(request.sha256)
        if data is None:
            return PackageRead(b"", -1)
        return PackageRead(data[request.offset : request.offset + PART], len(data))


def test_a_package_is_fetched_in_parts_and_only_once(tmp_path):
    head = Head(archive(a="1", b="2"), archive(c="3"))
    fetch(head.uris(), str(tmp_path), head.read)
    parts = [-(-len(data) // PART) for data in head.packages.values()]
    assert head.asked == sum(parts) > len(parts)
    for uri, names in zip(head.uris(), (["a.py", "b.py"], ["c.py"]), strict=True):
        assert sorted(p.name for p in (tmp_path / uri.sha256 / CONTENT).iterdir()) == names
        assert not (tmp_path / uri.sha256 / "package.zip").exists()
    fetch(head.uris(), str(tmp_path), head.read)
    assert head.asked == sum(parts)


def left(tmp_path: Path) -> list[str]:
    return [one.name for one in tmp_path.iterdir() if one.is_dir()]


def test_what_the_head_lacks_or_falsifies_leaves_nothing(tmp_path):
    head = Head(archive(a="1"))
    (uri,) = head.uris()
    head.packages[uri.sha256] = archive(a="2")
    with pytest.raises(FetchError, match="has another SHA-256"):
        fetch([uri], str(tmp_path), head.read)
    head.packages.clear()
    with pytest.raises(FetchError, match="does not have package"):
        fetch([uri], str(tmp_path), head.read)
    head = Head(b"no archive")
    with pytest.raises(UnpackError, match="not a zip file"):
        fetch(head.uris(), str(tmp_path), head.read)
    assert left(tmp_path) == []


def test_uris_become_paths_and_paths_stay(monkeypatch):
    monkeypatch.setenv(VARIABLE, "/cache")
    name = "a" * 64
    whole, module = str(PackageUri(name, 9, "")), str(PackageUri(name, 9, "tool"))
    found = local_paths({"working_dir": module, "py_modules": [module, whole, "/a/b"], "x": 1})
    content = f"/cache/{name}/{CONTENT}"
    assert found == {
        "working_dir": content,
        "py_modules": [f"{content}/tool", content, "/a/b"],
        "x": 1,
    }


def test_the_directory_of_a_job_is_recognized_by_its_mark(tmp_path):
    uri = str(PackageUri("a" * 64, 9, "mark"))
    assert not is_directory_of(str(tmp_path), uri)
    (tmp_path / MARK).write_text("mark\n")
    assert is_directory_of(str(tmp_path), uri)
    for other in (str(PackageUri("a" * 64, 9, "")), str(PackageUri("a" * 64, 9, "b")), "/a", None):
        assert not is_directory_of(str(tmp_path), other)
