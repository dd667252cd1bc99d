"""The hosts of the lab, on a bridge. All of it is in namespaces, so this machine's own network does
not change.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ACCOUNTS = {"phalanx": 5001, "alice": 5002, "bob": 5003}
"""The accounts of people on each host, with their ids. The cluster runs as the account phalanx."""
PREFIX = "10.79.0."
SSHD = "/usr/sbin/sshd"
SSHD_OPTIONS = (
    *("StrictModes no", "UsePAM no", "PasswordAuthentication no", "PrintMotd no"),
    *("PidFile none", "MaxStartups 100", "PermitRootLogin yes"),
)
START_S = 60.0


def why_not() -> str:
    """Return the reason why this machine cannot have the lab; "" if it can."""
    if os.getuid() != 0:
        return "only root can make network namespaces"
    missing = [name for name in ("ip", "unshare", "ssh-keygen", "redis-server") if not _find(name)]
    if not os.path.exists(SSHD):
        missing.append("sshd")
    if missing:
        return f"missing: {', '.join(missing)} (Debian: iproute2 openssh-server redis-server)"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--mount-proc", "true"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return f"no namespaces here: {tried.stderr.strip()}" if tried.returncode else ""


def _find(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def ip(*words: str) -> None:
    subprocess.run([_find("ip") or "ip", *words], check=True)


class Network:
    """The bridge of the lab, and the files that all hosts share. A later process opens the network
    by its directory.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.common = directory / "common"
        self._id = directory.name.rpartition("-")[2]
        self.switch = f"{self._id}-sw"
        self._cloud: subprocess.Popen[bytes] | None = None
        """The sshd of the administrator's host."""

    def create(self, hosts: dict[str, int]) -> None:
        """Make the bridge and the shared files. `hosts`: the last number of each host's address."""
        self.directory.mkdir(mode=0o755, parents=True)
        self.common.mkdir(mode=0o755)
        keys = self.common / "keys"
        keys.mkdir()
        rows = {"passwd": [], "group": [], "shadow": []}
        for name, number in {**ACCOUNTS, "sshd": 5099}.items():
            shell = "/usr/sbin/nologin" if name == "sshd" else "/bin/bash"
            rows["passwd"].append(f"{name}:x:{number}:{number}::/home/{name}:{shell}")
            rows["group"].append(f"{name}:x:{number}:")
            rows["shadow"].append(f"{name}:*:19000::::::")
        for name, lines in rows.items():
            known = [
                line
                for line in Path("/etc", name).read_text().splitlines()
                if line.partition(":")[0] not in {*ACCOUNTS, "sshd"}
            ]
            (self.common / name).write_text("\n".join([*known, *lines, ""]))
        (self.common / "shadow").chmod(0o600)
        lines = ["127.0.0.1 localhost", *(f"{PREFIX}{n} {name}" for name, n in hosts.items())]
        (self.common / "hosts").write_text("\n".join([*lines, ""]))
        (self.directory / "numbers.json").write_text(json.dumps(hosts))
        ip("netns", "add", self.switch)
        ip("-n", self.switch, "link", "add", "name", "br0", "type", "bridge")
        ip("-n", self.switch, "link", "set", "br0", "up")

    def address(self, name: str) -> str:
        numbers = json.loads((self.directory / "numbers.json").read_text())
        return f"{PREFIX}{numbers[name]}"

    def plug_in(self, name: str) -> str:
        """Make the network of a host, and return the name of its namespace."""
        namespace, port = f"{self._id}-{name}", f"{name}"[:15]
        ip("netns", "add", namespace)
        ip("-n", namespace, "link", "set", "lo", "up")
        peer = ("type", "veth", "peer", "name", "eth0", "netns", namespace)
        ip("-n", self.switch, "link", "add", port, *peer)
        ip("-n", self.switch, "link", "set", port, "master", "br0", "up")
        ip("-n", namespace, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
        ip("-n", namespace, "link", "set", "eth0", "up")
        return namespace

    def sshd(self, name: str) -> list[str]:
        """Write the configuration of a host's sshd, and return its command."""
        folder = self.directory / "hosts" / name
        folder.mkdir(parents=True, exist_ok=True)
        key = self.common / f"host-{name}"
        if not key.exists():
            make_key(key)
        text = "\n".join(
            [
                f"HostKey /srv/{key.name}",
                "AuthorizedKeysFile /srv/keys/%u",
                *SSHD_OPTIONS,
                "Subsystem sftp internal-sftp",
                f"SetEnv PATH=/opt/phalanx/bin:{sys.base_prefix}/bin:/usr/local/bin:/usr/bin:/bin "
                # One machine installs for all hosts, so it compiles only what they import.
                "PHALANX_SHARED_DIR=/run/heads PIP_NO_COMPILE=1",
                "",
            ]
        )
        (self.common / f"sshd-{name}").write_text(text)
        return [SSHD, "-D", "-e", "-f", f"/srv/sshd-{name}"]

    def boot(self, name: str, *more: list[str]) -> None:
        """Start a host with an sshd and the programs `more`, and wait until the sshd answers."""
        folder = self.directory / "hosts" / name
        programs = [self.sshd(name), *more]
        for part in ("home", "opt", "root", "run", "tmp"):
            (folder / part).mkdir(exist_ok=True)
        (folder / "tmp").chmod(0o1777)
        (folder / "opt").chmod(0o755)
        os.chown(folder / "opt", ACCOUNTS["phalanx"], ACCOUNTS["phalanx"])
        for account, number in ACCOUNTS.items():
            home = folder / "home" / account
            # Jobs run as phalanx, in the directory from which they were submitted.
            home.mkdir(mode=0o755, exist_ok=True)
            os.chown(home, number, number)
        heads = folder / "run" / "heads"
        heads.mkdir(mode=0o755, exist_ok=True)
        os.chown(heads, ACCOUNTS["phalanx"], ACCOUNTS["phalanx"])
        namespace = self.plug_in(name)
        log = open(folder / "log", "ab")  # noqa: SIM115
        process = subprocess.Popen(
            [
                *(_find("ip") or "ip", "netns", "exec", namespace),
                *("unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child"),
                *("--mount-proc", "/usr/bin/env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin"),
                *(sys.executable, str(HERE / "host.py")),
            ],
            stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        about = {"name": name, "directory": str(folder), "common": str(self.common)}
        assert process.stdin is not None
        process.stdin.write(json.dumps({**about, "programs": programs}).encode() + b"\n")
        process.stdin.close()
        (folder / "pid").write_text(str(process.pid))
        self.await_ssh(name)

    def serve_cloud(self, program: str) -> None:
        """Start an sshd on the administrator's host. A connection with the cloud's key runs
        `program` there.
        """
        folder = self.directory / "admin" / "sshd"
        folder.mkdir(mode=0o700)
        make_key(folder / "host")
        public = (self.common / "cloud-key.pub").read_text()
        words = f"{program} {self.directory}"
        (folder / "keys").write_text(f'command="{words}",restrict {public}')
        lines = [f"HostKey {folder}/host", f"AuthorizedKeysFile {folder}/keys", *SSHD_OPTIONS]
        (folder / "config").write_text("\n".join([*lines, ""]))
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        self._cloud = subprocess.Popen(
            [
                *(_find("ip") or "ip", "netns", "exec", f"{self._id}-admin"),
                *(SSHD, "-D", "-e", "-f", str(folder / "config")),
            ],
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def await_ssh(self, name: str) -> None:
        """Wait until the host's sshd answers."""
        deadline = time.monotonic() + START_S
        while (tried := self.on(name, "root", "true", check=False)).returncode:
            if time.monotonic() > deadline:
                log = (self.directory / "hosts" / name / "log").read_text()
                raise SystemExit(f"{name} does not answer: {tried.stdout}\n{log}")
            time.sleep(0.2)

    def cut_off(self, name: str) -> None:
        """End a host immediately, and delete its network, as if its power had failed for good."""
        folder = self.directory / "hosts" / name
        os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
        ip("netns", "del", f"{self._id}-{name}")
        (folder / "pid").unlink()

    def on(
        self, name: str, account: str, command: str, check: bool = True, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as an account on a host, over ssh."""
        return self.from_admin(
            ["ssh", "-F", f"{self.directory}/admin/ssh_config", f"{account}@{name}", command],
            check=check,
            **more,
        )

    def from_admin(
        self, words: list[str], check: bool = True, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as the administrator, whose host has this machine's files."""
        done = subprocess.run(
            [_find("ip") or "ip", "netns", "exec", f"{self._id}-admin", *words],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more,
        )  # fmt: skip
        if check and done.returncode:
            raise SystemExit(f"{' '.join(words)} failed ({done.returncode}):\n{done.stdout}")
        return done

    def close(self) -> None:
        """End all hosts, and delete everything."""
        if self._cloud is not None:
            self._cloud.terminate()
            self._cloud.wait()
        for pid in (self.directory / "hosts").glob("*/pid"):
            self.cut_off(pid.parent.name)
        for name in (f"{self._id}-admin", self.switch):
            subprocess.run([_find("ip") or "ip", "netns", "del", name], check=False)
        shutil.rmtree(self.directory, ignore_errors=True)


def make_key(path: Path) -> None:
    """Make a pair of keys for ssh."""
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", str(path)], check=True
    )
