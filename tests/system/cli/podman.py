"""A real podman for tests: the machine's own one, or one from Debian's packages in a directory of
the test.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import msgspec
from tests.present import present
from tests.system_programs import find_tool

PACKAGES = (
    *("podman", "conmon", "crun", "catatonit", "busybox-static", "libgpgme11", "libassuan0"),
    *("libdevmapper1.02.1", "libseccomp2", "libyajl2", "libsubid4"),
)
APPLETS = ("sh", "cat", "echo", "env", "id", "kill", "ls", "pwd", "sleep", "tail", "true")
CONTAINERS_CONF = """
[containers]
cgroups = "disabled"
[engine]
conmon_path = ["ROOT/bin/conmon"]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
[engine.runtimes]
crun = ["ROOT/bin/crun"]
"""
STORAGE_CONF = """
[storage]
driver = "vfs"
runroot = "ROOT/run"
graphroot = "ROOT/graph"
"""
POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}'
PROGRAM = """#!/bin/sh
export LD_LIBRARY_PATH=LIBRARIES
exec ROOT/debian/usr/bin/NAME "$@"
"""
# crun refuses a machine with both versions of control groups, so it sees only the second one.
PODMAN = """#!/bin/sh
export LD_LIBRARY_PATH=LIBRARIES HOME=ROOT/home XDG_RUNTIME_DIR=ROOT/run
export CONTAINERS_CONF=ROOT/containers.conf CONTAINERS_STORAGE_CONF=ROOT/storage.conf
exec unshare -m sh -c '
  umount -l /sys/fs/cgroup 2> /dev/null; mount -t cgroup2 cgroup2 /sys/fs/cgroup
  exec ROOT/debian/usr/bin/podman "$@"
' podman "$@"
"""


def why_none() -> str:
    """Return why no podman can be set up here; "" if it can."""
    if os.getuid() != 0:
        return "podman of the packages is tried as root alone"
    missing = [name for name in ("apt-get", "dpkg", "unshare") if find_tool(name) is None]
    return f"{missing[0]} is missing" if missing else ""


class Podman:
    """podman with its data below a directory, and with an image localhost/busy:1. Raises
    CalledProcessError where Debian's packages cannot be fetched.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "bin"
        for name in ("bin", "packages", "debian", "run", "graph", "home/.config/containers"):
            (root / name).mkdir(parents=True)
        run(present(find_tool("apt-get")), "download", *PACKAGES, cwd=root / "packages")
        for package in (root / "packages").iterdir():
            run(present(find_tool("dpkg")), "-x", str(package), str(root / "debian"))
        libraries = [f"{root}/debian/{one}/x86_64-linux-gnu" for one in ("usr/lib", "lib")]
        self._fill = {"LIBRARIES": ":".join(libraries), "ROOT": str(root)}
        (self.bin / "catatonit").symlink_to(root / "debian" / "usr" / "bin" / "catatonit")
        for name in ("crun", "conmon"):
            self._write(f"bin/{name}", PROGRAM.replace("NAME", name))
        self._write("bin/podman", PODMAN)
        self._write("containers.conf", CONTAINERS_CONF)
        self._write("storage.conf", STORAGE_CONF)
        self._write("home/.config/containers/policy.json", POLICY)
        self.run("import", str(self._image()), "localhost/busy:1")

    def _write(self, name: str, text: str) -> None:
        for word, value in self._fill.items():
            text = text.replace(word, value)
        path = self.root / name
        path.write_text(text)
        path.chmod(0o755)

    def _image(self) -> Path:
        tree = self.root / "image"
        (tree / "bin").mkdir(parents=True)
        busybox = tree / "bin" / "busybox"
        busybox.write_bytes((self.root / "debian" / "bin" / "busybox").read_bytes())
        busybox.chmod(0o755)
        for name in APPLETS:
            (tree / "bin" / name).symlink_to("busybox")
        (tree / "in-the-image").write_text("yes\n")
        with tarfile.open(self.root / "image.tar", "w") as file:
            file.add(tree, ".")
        return self.root / "image.tar"

    def add_python(self) -> None:
        """Build the image localhost/python:1 from localhost/busy:1 and this Python without its
        packages.
        """
        tree = shutil.copytree(self.root / "image", self.root / "python", symlinks=True)
        library = Path(sysconfig.get_path("stdlib"))
        there = tree / library.relative_to("/")
        unneeded = shutil.ignore_patterns("test", "tests", "site-packages", "__pycache__", "*.a")
        shutil.copytree(library, there, ignore=unneeded, symlinks=True)
        program = tree / "usr" / "bin" / "python3"
        program.parent.mkdir(parents=True)
        shutil.copy(Path(sys.base_prefix) / "bin" / "python3", program)
        needing = [program, *there.glob("lib-dynload/*.so"), Path(str(msgspec._core.__file__))]
        for path in libraries_of(needing):
            (tree / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, tree / path[1:])
        (there / "site-packages").mkdir()
        (there / "site-packages" / "of_the_image.py").write_text("WORD = 'image'\n")
        with tarfile.open(self.root / "python.tar", "w") as file:
            file.add(tree, ".")
        change = f"ENV PYTHONHOME={sys.base_prefix}"
        self.run("import", "--change", change, str(self.root / "python.tar"), "localhost/python:1")

    def run(self, *arguments: str) -> str:
        """Run a command of podman; return its output."""
        return run(str(self.bin / "podman"), *arguments)

    def containers(self) -> list[str]:
        """Return the names of all containers, also of those that have ended."""
        return self.run("ps", "--all", "--format", "{{.Names}}").split()


def libraries_of(programs: list[Path]) -> set[str]:
    """Return the shared libraries that these programs need."""
    shown = run(present(find_tool("ldd")), *map(str, programs))
    return set(re.findall(r"(/\S+) \(0x", shown))


def run(*argv: str, cwd: Path | None = None) -> str:
    """Run a program that must succeed; return its output."""
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout
