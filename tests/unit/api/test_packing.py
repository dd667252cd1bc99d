"""Packages of directories and modules, and their upload in parts."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from phalanx.api import packing, uploads
from phalanx.api.packing import Packed, pack
from phalanx.api.uploads import upload
from phalanx.model.packages import MOST_BYTES
from phalanx.protocol.requests.packages import PutPackage


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


def test_an_upload_goes_on_where_it_was_cut_off(tmp_path, monkeypatch):
    monkeypatch.setattr(uploads, "PART_BYTES", 50)
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
