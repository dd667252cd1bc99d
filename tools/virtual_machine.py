r"""Runs a command in a virtual machine with Debian's kernel, which has control groups (cgroup v2).

    python tools/virtual_machine.py -- .venv/bin/python -m pytest -p no:cacheprovider \
        tests/unit/runtime/test_command_groups.py

Some machines, those of CI among them, have control groups of version 1, where the kernel holds no
limits for Phalanx. The virtual machine sees this machine's files, and what it writes is lost at its
end. It begins as root, in a group without other processes and with all controllers, in this
directory. It has two processors, which qemu emulates, so everything in it takes about 15 times as
long. Needs root and Debian: qemu, a kernel and busybox come from Debian's packages.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("qemu-system-x86", "busybox-static")
KERNEL = "linux-image-amd64"
MODULES = (
    *("drivers/virtio/virtio_ring", "drivers/virtio/virtio"),
    *("drivers/virtio/virtio_pci_modern_dev", "drivers/virtio/virtio_pci_legacy_dev"),
    *("drivers/virtio/virtio_pci", "fs/netfs/netfs", "fs/fscache/fscache"),
    *("net/9p/9pnet", "net/9p/9pnet_virtio", "fs/9p/9p", "fs/overlayfs/overlay"),
)
"""The modules of the kernel by which the virtual machine reaches this machine's files, in the order
in which they must be loaded.
"""
INIT = """#!/bin/busybox sh
B=/bin/busybox
$B mount -t proc p /proc; $B mount -t sysfs s /sys; $B mount -t devtmpfs d /dev
for module in MODULES; do $B insmod /modules/$module.ko; done
$B mount -t 9p -o trans=virtio,version=9p2000.L,msize=1048576,cache=loose,ro root /below
$B mount -t tmpfs -o size=75% t /written; $B mkdir /written/upper /written/work
$B mount -t overlay -o lowerdir=/below,upperdir=/written/upper,workdir=/written/work o /new
for one in proc sys dev; do $B mount --move /$one /new/$one; done
exec $B switch_root /new /bin/bash START
"""
START = """
export PATH=PATHS HOME=/root TERM=dumb LANG=C.UTF-8
mkdir -p /dev/shm /dev/pts /sys/fs/cgroup
mount -t tmpfs s /dev/shm; mount -t devpts p /dev/pts; mount -t tmpfs -o mode=755 r /run
ln -sf /proc/self/fd /dev/fd; ip link set lo up
mount -t cgroup2 c /sys/fs/cgroup
echo "+cpu +cpuset +memory +pids" > /sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/own
cd HERE
(echo $BASHPID > /sys/fs/cgroup/own/cgroup.procs; exec COMMAND)
echo "MARK $?"
echo o > /proc/sysrq-trigger; while :; do :; done
"""
MARK = "the command ended with exit code"


def run(*argv: str, cwd: Path | None = None) -> str:
    """Run a program that must succeed. Returns its output."""
    done = subprocess.run(argv, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def fetch(directory: Path) -> tuple[Path, Path]:
    """Download Debian's kernel. Returns the kernel and the directory of its modules."""
    run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES)
    depends = run("apt-cache", "depends", KERNEL).split()
    package = next(word for word in depends if word.startswith("linux-image-") and word != KERNEL)
    run("apt-get", "download", "-qq", package, cwd=directory)
    (file,) = directory.glob("*.deb")
    run("dpkg", "-x", str(file), str(directory / "kernel"))
    (kernel,) = (directory / "kernel" / "boot").glob("vmlinuz-*")
    (modules,) = (directory / "kernel" / "lib" / "modules").iterdir()
    return kernel, modules / "kernel"


def first_files(directory: Path, modules: Path, start: Path) -> Path:
    """Pack the files with which the kernel starts (initramfs), and return the archive."""
    tree = directory / "first"
    for name in ("bin", "proc", "sys", "dev", "below", "written", "new", "modules"):
        (tree / name).mkdir(parents=True)
    (tree / "bin" / "busybox").write_bytes(Path("/bin/busybox").read_bytes())
    names = []
    for module in MODULES:
        file = modules / f"{module}.ko"
        names.append(file.stem)
        (tree / "modules" / file.name).write_bytes(file.read_bytes())
    init = INIT.replace("MODULES", " ".join(names)).replace("START", str(start))
    (tree / "init").write_text(init)
    for program in (tree / "init", tree / "bin" / "busybox"):
        program.chmod(0o755)
    files = "\n".join(str(one.relative_to(tree)) for one in tree.rglob("*"))
    packed = subprocess.run(
        ["busybox", "cpio", "-o", "-H", "newc"],
        cwd=tree,
        input=files.encode(),
        check=True,
        capture_output=True,
    )
    archive = directory / "first.gz"
    archive.write_bytes(gzip.compress(packed.stdout, 1))
    return archive


def main() -> int:
    """Run the command, and print its output. Returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600, help="the longest run, in seconds")
    parser.add_argument("command", nargs="+", help="the command and its arguments, after --")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        kernel, modules = fetch(directory)
        start = directory / "start.sh"
        text = START.replace("PATHS", os.environ["PATH"]).replace("HERE", shlex.quote(str(ROOT)))
        start.write_text(text.replace("COMMAND", shlex.join(given.command)).replace("MARK", MARK))
        machine = subprocess.Popen(
            [
                *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max"),
                *("-m", "8G", "-smp", "2", "-nographic", "-no-reboot", "-nic", "none"),
                *("-kernel", str(kernel), "-initrd", str(first_files(directory, modules, start))),
                *("-append", "console=ttyS0 quiet loglevel=3 panic=-1"),
                "-virtfs",
                "local,path=/,mount_tag=root,security_model=passthrough,readonly=on,multidevs=remap",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        code = 1
        try:
            assert machine.stdout is not None
            for line in machine.stdout:
                print(line, end="", flush=True)
                if line.startswith(MARK):
                    code = int(line.rpartition(" ")[2])
            machine.wait(given.seconds)
        finally:
            machine.kill()
    return code


if __name__ == "__main__":
    sys.exit(main())
