"""Files of packages at the head and on nodes, and how they are unpacked."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from phalanx.model.packages import MARK, MODULES, Package
from phalanx.runtime.environments import unpacking
from phalanx.runtime.environments.unpacking import UnpackError, unpack_all
from phalanx.runtime.os.package_files import PackageDirectory


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def add(directory: PackageDirectory, data: bytes, part: int = 4) -> str:
    name = sha(data)
    for offset in range(0, len(data), part):
        directory.add(name, offset, data[offset : offset + part], len(data))
    return name


def test_a_package_is_here_when_all_its_parts_have_come(tmp_path):
    directory = PackageDirectory(str(tmp_path / "p"))
    data = b"0123456789"
    name = sha(data)
    directory.add(name, 0, data[:4], 10)
    directory.add(name, 0, data[:4], 10)  # it comes twice
    assert (directory.length(name), directory.has(name)) == (4, False)
    directory.add(name, 4, data[4:], 10)
    assert (directory.length(name), directory.has(name)) == (10, True)
    assert directory.read(name, 8, 99) == (b"89", 10)
    assert directory.read(sha(b"other"), 0, 9) == (b"", -1)
    assert os.stat(directory.path(name)).st_mode & 0o777 == 0o600


def test_content_with_another_hash_is_refused(tmp_path):
    directory = PackageDirectory(str(tmp_path))
    with pytest.raises(ValueError, match="another SHA-256"):
        directory.add(sha(b"one"), 0, b"two", 3)
    assert (directory.has(sha(b"one")), os.listdir(tmp_path)) == (False, [])


def test_room_is_made_by_deleting_what_no_job_needs(tmp_path):
    directory = PackageDirectory(str(tmp_path), most_bytes=30, least_free_bytes=0)
    old, needed, new = (add(directory, text * 10) for text in (b"o", b"n", b"w"))
    for number, name in enumerate((needed, old, new)):
        os.utime(directory.path(name), (number, number))
    directory.make_room(10, {needed})
    assert [directory.has(name) for name in (old, needed, new)] == [False, True, True]
    with pytest.raises(ValueError, match="there is no room for a package"):
        directory.make_room(21, {needed, new})


def package(directory: Path, entries: dict[str, str], kind: str = "working_dir") -> Package:
    """Write a package with these entries; a name that ends with "->" is a link."""
    path = directory / "new.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in entries.items():
            entry = zipfile.ZipInfo(name.removesuffix("->"))
            kind_bits = 0o120777 if name.endswith("->") else 0o100700
            entry.external_attr = kind_bits << 16
            archive.writestr(entry, text)
    made = Package(sha256=sha(path.read_bytes()), size=path.stat().st_size, kind=kind)  # type: ignore[arg-type]
    path.rename(directory / made.file)
    return made


def test_packages_are_unpacked_once_into_their_places(tmp_path):
    home, files = tmp_path / "home", tmp_path / "files"
    home.mkdir()
    files.mkdir()
    main = package(files, {"a/train.py": "x", "run": "y"})
    module = package(files, {"pkg/__init__.py": ""}, "py_module")
    unpack_all([main, module], str(files), str(home), "mark")
    assert (home / "a" / "train.py").read_text() == "x"
    assert os.access(home / "run", os.X_OK)
    assert (home / MODULES / "1" / "pkg" / "__init__.py").exists()
    (home / "run").write_text("changed by the job")
    unpack_all([main, module], str(files), str(home), "mark")
    assert (home / "run").read_text() == "changed by the job"
    unpack_all([main, module], str(files), str(home), "another")
    assert ((home / "run").read_text(), (home / MARK).read_text()) == ("y", "another\n")


@pytest.mark.parametrize("name", ["../out", "/abs", "a/../../out", "a//b", "./a", "a\\b", "link->"])
def test_no_entry_leads_out_of_its_directory(tmp_path, name):
    home, files = tmp_path / "home", tmp_path / "files"
    home.mkdir()
    files.mkdir()
    made = package(files, {"fine": "1", name: "/etc"})
    with pytest.raises(UnpackError, match=r"no path below it|no file"):
        unpack_all([made], str(files), str(home), "mark")
    assert sorted(os.listdir(tmp_path)) == ["files", "home"]
    assert os.listdir(home) == []


def test_a_package_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "MOST_BYTES", 1 << 10)
    made = package(tmp_path, {"bomb": "0" * 4096})
    with pytest.raises(UnpackError, match=r"at most 100000 files of 1\.0 KiB"):
        unpack_all([made], str(tmp_path), str(tmp_path), "mark")
    (tmp_path / made.file).write_bytes(b"no zip file")
    with pytest.raises(UnpackError, match="not a zip file"):
        unpack_all([made], str(tmp_path), str(tmp_path), "mark")
