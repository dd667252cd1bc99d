"""The lab: a head, a standby and four nodes, set up, upgraded, hurt and enlarged.

    make lab                    writes docs/tutorials/lab.md, if every step went well
    make lab BEFORE=v0.2.0      upgrades from this commit; else from the last tag or, without a
                                tag, from the first commit that speaks the same protocol

Both wheels are those that `make release` builds of their commits. Root is needed for network
namespaces, and a package index for the wheels that Phalanx needs. Each step is checked; the first
that fails ends the lab, and the page stays as it was.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from tools.lab.lab import NODES, Lab  # noqa: E402
from tools.lab.network import ACCOUNTS, Network, make_key, why_not  # noqa: E402
from tools.lab.page import Page  # noqa: E402
from tools.lab.steps import take_steps  # noqa: E402
from tools.release.build import build_wheel, export, time_of  # noqa: E402

PAGE = ROOT / "docs" / "tutorials" / "lab.md"
NUMBERS = {
    "admin": 1,
    "store": 9,
    "alpha": 11,
    "beta": 12,
    "gamma": 13,
    "delta": 14,
    "epsilon": 15,
    "zeta": 16,
    "cloud-1": 21,
    "cloud-2": 22,
}
PROTOCOL = "src/phalanx/protocol/messages.py"
BUILDER = ROOT / ".venv-release" / "bin" / "python"
"""The Python of `make release`, with pinned versions of what builds."""


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def commit_before(given: str) -> str:
    """Return the commit from which the lab upgrades. It must speak the same version of the protocol
    as the new commit, because otherwise jobs do not go on.
    """
    if commit := given or git("describe", "--tags", "--abbrev=0"):
        return commit
    return git("log", "-1", "--format=%H", "-G^PROTOCOL_VERSION = ", "--", PROTOCOL)


def build(commit: str, target: Path, wheels: Path) -> None:
    """Build the wheel of a commit as `make release` does, and fetch the wheels that it needs."""
    with tempfile.TemporaryDirectory() as folder:
        export(commit, Path(folder))
        build_wheel(Path(folder), target, time_of(commit), str(BUILDER))
        (wheel,) = target.glob("phalanx-*.whl")
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--wheel-dir", str(wheels), f"{wheel}[cluster,redis]"], check=True)
    for path in wheels.glob("phalanx-*.whl"):
        path.unlink()


def prepare(network: Network, packages: Path) -> None:
    """Make the keys, and all hosts except those that start on demand. `packages`: the directory of
    the wheels.
    """
    network.create(NUMBERS)
    here = network.directory / "admin"
    here.mkdir()
    make_key(here / "key")
    make_key(network.common / "cloud-key")
    public = (here / "key.pub").read_text()
    for account in ("root", *ACCOUNTS):
        (network.common / "keys" / account).write_text(public)
    lines = [f"IdentityFile {here}/key", f"UserKnownHostsFile {here}/known_hosts"]
    lines += ["StrictHostKeyChecking accept-new", "LogLevel ERROR"]
    for name in NUMBERS:
        lines += [f"Host {name}", f"HostName {network.address(name)}"]
    (here / "ssh_config").write_text("\n".join([*lines, ""]))
    for name in ("before", "after"):
        shutil.copytree(packages / name, here / name)
    shutil.copytree(packages / "wheels", network.common / "wheels")
    network.plug_in("admin")
    redis = ["redis-server", "--bind", network.address("store"), "--protected-mode", "no"]
    network.boot("store", [*redis, "--save", "", "--dir", "/tmp"])
    for name in ("alpha", "beta", *NODES):
        network.boot(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", default="", help="the commit to upgrade from")
    parser.add_argument(
        "--packages", type=Path, help="the directory of the wheels, which a later run uses again"
    )
    parser.add_argument("--keep", action="store_true", help="leave the hosts running")
    given = parser.parse_args()
    if reason := why_not():
        print(f"make lab is skipped: {reason}.")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("the lab was ended"))  # and its hosts
    network = Network(Path(tempfile.gettempdir()) / f"phx-lab-{os.getpid()}")
    page = Page()
    packages = given.packages or network.directory.with_suffix(".packages")
    try:
        for name, commit in (("before", commit_before(given.before)), ("after", "HEAD")):
            if not (packages / name).exists():
                build(commit, packages / name, packages / "wheels")
        prepare(network, packages)
        lab = Lab(network, page)
        try:
            take_steps(lab)
        except SystemExit:
            lab.tell_state()
            raise
    finally:
        if not given.keep:
            network.close()
            if not given.packages:
                shutil.rmtree(packages, ignore_errors=True)
    page.write(PAGE)
    print(f"Every step went well; {PAGE.relative_to(ROOT)} is written.")


if __name__ == "__main__":
    main()
