"""Large files are written to a disk. A directory in memory is not used for them, and no directory
of another account.
"""

from __future__ import annotations

import os

import pytest

from phalanx.runtime.os import real_disks
from phalanx.runtime.os.real_disks import first_on_disk, is_in_memory


def mounts(tmp_path, kind):
    """Write a list of mounts in which the file system of `tmp_path` is of this kind; return its
    path.
    """
    device = os.stat(tmp_path).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    text = f"1 0 0:0 / /proc rw - proc proc rw\n2 0 {number} / /x rw shared:1 - {kind} none rw\n"
    (tmp_path / "mounts").write_text(text)
    return str(tmp_path / "mounts")


@pytest.mark.parametrize(("kind", "found"), [("tmpfs", True), ("ext4", False), ("overlay", False)])
def test_the_kind_of_a_file_system_is_known(tmp_path, kind, found):
    assert is_in_memory(str(tmp_path), mounts(tmp_path, kind)) is found


def test_shared_memory_is_memory():
    if not os.path.ismount("/dev/shm"):
        pytest.skip("this machine has no file system of its own at /dev/shm")
    assert is_in_memory("/dev/shm")


@pytest.mark.parametrize(
    ("in_memory", "chosen"),
    [((), "a"), (("a",), "b"), (("a", "b"), "a")],
)
def test_the_first_on_a_disk_is_chosen(tmp_path, monkeypatch, in_memory, chosen):
    monkeypatch.setattr(
        real_disks, "is_in_memory", lambda path: os.path.basename(path) in in_memory
    )
    bases = [str(tmp_path / name) for name in ("a", "b")]
    assert first_on_disk(bases, "otherwise") == str(tmp_path / chosen)


def test_a_directory_of_somebody_else_is_passed_over(tmp_path):
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    taken = [str(tmp_path / name) for name in ("open", "file", "link")]
    assert first_on_disk(taken, "otherwise") == "otherwise"
    assert first_on_disk([*taken, str(tmp_path / "ours")], "") == str(tmp_path / "ours")
