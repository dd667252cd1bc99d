"""Packages of directories and modules, and their upload in parts."""

from __future__ import annotations

import errno
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import NoReturn

import pytest

from phalanx.adapters.ray.jobs.packing import pack as pack_for_ray
from phalanx.api.job import Job
from phalanx.api.job_config import JOB_CONFIG
from phalanx.api.uploads import with_packages
from phalanx.cli.table import safe
from phalanx.model.packages import MOST_BYTES, mark_of, read_uri, read_uris, uris_in, written_uris
from phalanx.protocol.requests.packages import PutPackage
from phalanx.runtime.environments import packing, uploading
from phalanx.runtime.environments.packing import Packed, contents, name_in_package, pack
from phalanx.runtime.environments.uploading import NoPackagesError, Uploads, upload


def make(root: Path, *names: str) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return root


def names_in(packed: Packed) -> list[str]:
    packed.file.seek(0)
    with zipfile.ZipFile(packed.file) as archive:
        return archive.namelist()


def test_what_ignore_files_and_excludes_name_is_left_out(tmp_path):
    root = make(
        tmp_path, "a.py", "a.log", "keep.log", "data/x", "sub/b.py", "sub/b.tmp", "sub/out/c",
        ".git/config", "__pycache__/a.pyc", ".venv/python",
    )  # fmt: skip
    (root / ".gitignore").write_text("*.log\n!keep.log\n")
    (root / "sub" / ".phalanxignore").write_text("*.tmp\n/out/\n")
    (root / "loop").symlink_to(root)
    with pack(str(root), ["/data"]).file as file, zipfile.ZipFile(file) as archive:
        expected = [".gitignore", "a.py", "keep.log", "sub/.phalanxignore", "sub/b.py"]
        assert archive.namelist() == expected


def test_equal_content_makes_one_package(tmp_path):
    one, two = make(tmp_path / "one", "a", "b/c"), make(tmp_path / "two", "b/c", "a")
    first, second = pack(str(one)), pack(str(two))
    (one / "a").write_text("changed")
    third = pack(str(one))
    assert first.sha256 == second.sha256 != third.sha256
    for packed in (first, second, third):
        packed.file.close()


def test_a_module_is_packed_with_its_name(tmp_path):
    root = make(tmp_path, "pkg/__init__.py", "pkg/x.py", "alone.py")
    for path, expected in (("pkg", ["pkg/__init__.py", "pkg/x.py"]), ("alone.py", ["alone.py"])):
        packed = pack(str(root / path), with_its_name=True)
        assert names_in(packed) == expected
        packed.file.close()


def test_what_cannot_be_packed_says_why(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="is not a valid path"):
        pack(str(tmp_path / "missing"))
    make(tmp_path, "small", "the-largest-file")
    assert MOST_BYTES == 500 << 20
    monkeypatch.setattr(packing, "MOST_BYTES", 10)
    with pytest.raises(ValueError, match=r"at most 10 B. The largest files: the-largest-file"):
        pack(str(tmp_path))


def unreadable(path: Path, *_: object, **__: object) -> NoReturn:
    raise PermissionError(errno.EACCES, "Permission denied", str(path))


def test_a_file_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    root = make(tmp_path, "wd/sub/a.py", "wd/.phalanxignore")
    monkeypatch.setattr(Path, "open", unreadable)
    with pytest.raises(
        ValueError, match=r"/wd/\.phalanxignore cannot be read: Permission denied\. "
    ):
        pack(str(root / "wd"))
    with pytest.raises(ValueError, match=r"/a\.py cannot be read: Permission denied$"):
        pack(str(root / "wd/sub/a.py"))
    with pytest.raises(ValueError, match=r"/a\.py cannot be read.*leave it out with `excludes`"):
        pack_for_ray(root / "wd/sub")
    monkeypatch.setattr(Path, "iterdir", unreadable)
    for call in (pack, contents):
        with pytest.raises(ValueError, match=r"/wd cannot be read: Permission denied$"):
            call(str(root / "wd"))
    monkeypatch.setattr(os, "scandir", unreadable)
    with pytest.raises(ValueError, match=r"/wd cannot be read: Permission denied$"):
        pack_for_ray(root / "wd")


def test_a_full_disk_is_not_said_to_be_an_unreadable_file(tmp_path, monkeypatch):
    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    root = make(tmp_path, "a.py")
    monkeypatch.setattr(tempfile, "SpooledTemporaryFile", full)
    with pytest.raises(ValueError, match="cannot be packed: No space left on device"):
        pack(str(root))


def test_a_name_that_is_not_utf_8_is_shown(tmp_path):
    root = make(tmp_path, "sub/a.py")
    Path(os.fsdecode(os.fsencode(root / "sub") + b"/\xff.py")).touch()
    for call in (pack, contents):
        with pytest.raises(ValueError, match="has a name that is not UTF-8") as refused:
            call(str(root))
        assert "sub/\\xff.py" in safe(str(refused.value))
    with pytest.raises(ValueError, match="has a name that is not UTF-8"):
        pack_for_ray(root)


def test_an_upload_goes_on_where_it_was_cut_off(tmp_path, monkeypatch):
    monkeypatch.setattr(uploading, "PART_BYTES", 50)
    packed = pack(str(make(tmp_path, *map(str, range(20)))))
    packed.file.seek(0)
    whole = packed.file.read()
    have = bytearray(whole[:70])
    said: list[str] = []

    def ask(request: PutPackage) -> int:
        assert (request.sha256, request.size) == (packed.sha256, len(whole))
        if request.data:
            assert request.offset == len(have)
            have.extend(request.data)
        return len(have)

    upload("dir", packed, ask, said.append)
    assert bytes(have) == whole
    assert said == [f"uploading dir: {len(whole) / 1024:.1f} KiB, 20 files"]
    upload("dir", packed, ask, said.append)
    assert len(said) == 1, "the head has it"
    packed.file.close()


def test_a_link_to_a_module_is_packed_under_the_name_of_the_link(tmp_path):
    root = make(tmp_path, "pkg-1.0/__init__.py")
    (root / "pkg").symlink_to(root / "pkg-1.0")
    packed = pack(str(root / "pkg"), with_its_name=True)
    assert (names_in(packed), name_in_package(str(root / "pkg"))) == (["pkg/__init__.py"], "pkg")
    packed.file.close()


class Head:
    """Stands for a head that takes whole packages in one request, and keeps their names."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def ask(self, request: PutPackage) -> int:
        if request.data:
            self.names.append(request.sha256)
        return request.size if request.sha256 in self.names else 0


def test_directories_of_an_environment_become_uris_and_are_packed_again_when_they_change(tmp_path):
    root = make(tmp_path, "wd/a.py", "wd/b.tmp", "tool/__init__.py")
    head, said = Head(), list[str]()
    uploads = Uploads(head.ask, said.append)
    given = {
        "working_dir": str(root / "wd"),
        "py_modules": [str(root / "tool")],
        "excludes": ["*.tmp"],
        "env_vars": {"A": "1"},
    }
    first = uploads.uploaded(given)
    assert [uri.sha256 for uri in uris_in(first)] == head.names
    assert [uri.name for uri in uris_in(first)] == ["", "tool"]
    assert (first["env_vars"], "excludes" in first) == ({"A": "1"}, False)
    assert uploads.uploaded(given) == uploads.uploaded(first) == first
    (root / "wd" / "b.tmp").write_text("is left out, so nothing changes")
    assert (uploads.uploaded(given), len(said)) == (first, 2)
    (root / "wd" / "a.py").write_text("changed")
    assert uploads.uploaded(given)["working_dir"] != first["working_dir"]
    assert len(said) == 3


def test_a_head_that_takes_no_packages_leaves_paths_as_they_are(tmp_path):
    make(tmp_path, "a.py")
    asked: list[PutPackage] = []

    def ask(request: PutPackage) -> int:
        asked.append(request)
        return -1

    uploads = Uploads(ask, print)
    given = {"working_dir": str(tmp_path), "excludes": ["x"]}
    assert uploads.uploaded(given) == uploads.uploaded(given) == given
    assert len(asked) == 1
    with pack(str(tmp_path)).file as file, pytest.raises(NoPackagesError):
        upload("dir", Packed(file, []), ask, print)


def test_uris_are_read_as_they_were_written(tmp_path):
    make(tmp_path, "a:b c.py")
    head = Head()
    found = Uploads(head.ask, print).uploaded({"py_modules": [str(tmp_path / "a:b c.py")]})
    (uri,) = uris_in(found)
    assert (uri.name, read_uri(str(uri))) == ("a:b c.py", uri)
    assert read_uris(written_uris([uri])) == [uri]
    for wrong in ("/a/b", "phalanx-package:abc:1:", f"phalanx-package:{'A' * 64}:1:", None, 3):
        assert read_uri(wrong) is None
    with pytest.raises(ValueError, match="is no package"):
        read_uris('["/a/b"]')


def test_a_job_passes_its_packages_on_to_its_tasks(tmp_path):
    root = make(tmp_path, "wd/a.py", "tool.py")
    env = {"working_dir": str(root / "wd"), "py_modules": [str(root / "tool.py")]}
    job = Job("python a.py", runtime_env=env, env={JOB_CONFIG: '{"metadata": {"a": "$b"}}'})
    spec = with_packages(job.spec(), env, Head().ask, print)
    (process,) = spec.groups[0].template.processes
    config = json.loads(dict(process.env)[JOB_CONFIG].replace("$$", "$"))
    assert config["metadata"] == {"a": "$b"}
    directory, module = uris_in(config["runtime_env"])
    assert (directory.sha256, directory.name) == (spec.packages[0].sha256, mark_of(spec.packages))
    assert (module.sha256, module.name) == (spec.packages[1].sha256, "tool.py")
