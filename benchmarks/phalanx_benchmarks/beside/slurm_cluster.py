"""Real Slurm on the loopback address, with several nodes on one machine."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from phalanx_benchmarks.beside.packages import unpacked
from phalanx_benchmarks.beside.processes import PATIENCE_S, Daemons, free_ports, wait_until

PACKAGES = (
    "slurmctld", "slurmd", "slurmdbd", "slurm-client", "munge", "mariadb-server-core",
    "mariadb-client-core",
)  # fmt: skip
USUAL = {
    "DefMemPerCPU": "100",
    "FirstJobId": "4001",
    "KillWait": "2",
    "MpiDefault": "none",
    "PriorityType": "priority/multifactor",
    "ProctrackType": "proctrack/linuxproc",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_CPU_Memory",
    "TaskPlugin": "task/none",
    "JobAcctGatherType": "jobacct_gather/none",
    "ReturnToService": "2",
    "SlurmdTimeout": "300",
    "SlurmdParameters": "config_overrides",
    "TCPTimeout": "10",
    "UnkillableStepTimeout": "60",
}
"""The settings of slurm.conf. All other settings keep Slurm's defaults."""


class SlurmCluster:
    """Debian's Slurm with its own authentication, database, controller and nodes. As a context
    manager, it cancels its jobs at the end, and ends each of its processes by its id.
    """

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 4,
        cpus: int = 4,
        gpus: int = 0,
        settings: Mapping[str, str] | None = None,
        partitions: str = "PartitionName=primary Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
        has_accounts: bool = True,
    ) -> None:
        """`folder` has the unpacked packages. `settings` are lines of slurm.conf."""
        self.name = "slurm"
        self.nodes = [f"n{at}" for at in range(1, nodes + 1)]
        self.cpus, self._gpus = cpus, gpus
        self._settings = {**USUAL, **(settings or {})}
        self._partitions = partitions
        self._has_accounts = has_accounts
        self._files = unpacked(PACKAGES, folder)
        self._at = Path(tempfile.mkdtemp(prefix="bs-", dir="/tmp"))
        self._lines: list[str] = []
        """The lines of slurm.conf at the start."""
        os.chmod(self._at, 0o755)
        self._daemons = Daemons(self._at)
        library = self._files / "usr/lib/x86_64-linux-gnu"
        self._sbin = self._files / "usr/sbin"
        for name in ("slurmctld", "slurmd", "slurmstepd"):  # the name decides what they do
            if not (self._sbin / name).exists():
                (self._sbin / name).symlink_to(f"{name}-wlm")
        self.env = {
            "PATH": f"{self._files / 'usr/bin'}:/usr/bin:/bin:/usr/sbin:/sbin",
            "LD_LIBRARY_PATH": f"{library}:{library / 'slurm-wlm'}",
            "SLURM_CONF": str(self._at / "slurm.conf"),
            "HOME": str(self._at),
            "USER": "root",
            "SLURM_TIME_FORMAT": "standard",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
        }
        self._database_port, self._accounts_port, self._port, *self._node_ports = free_ports(
            3 + nodes
        )

    def __enter__(self) -> SlurmCluster:
        try:
            self._start_munge()
            self._write_settings()
            if self._has_accounts:
                self._start_accounts()
            self.start_controller()
            for name in self.nodes:
                self._start_node(name)
            wait_until(self._is_up, "nodes of Slurm")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, line: str, directory: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a shell line to its end."""
        return subprocess.run(
            ["sh", "-c", line], env=self.env, cwd=directory or self._at, text=True,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip

    def done(self, line: str) -> str:
        """Return the output of a line that must succeed. Raises RuntimeError if it fails."""
        ended = self.run(line)
        if ended.returncode:
            raise RuntimeError(f"{line}: {ended.stdout}{ended.stderr}")
        return ended.stdout

    def start_controller(self) -> None:
        """Start the controller."""
        self._daemons.start("slurmctld", [str(self._sbin / "slurmctld"), "-D"], self.env)
        wait_until(lambda: self.run("scontrol ping").returncode == 0, "Slurm's controller")

    def restart_controller(self) -> None:
        """Restart the controller, so that it reads its state and computes all shares."""
        self._daemons.end("slurmctld")
        self.start_controller()
        wait_until(self._is_up, "nodes of Slurm")

    def restart_with(self, **settings: str) -> None:
        """Restart the controller with these settings in addition to those of the start."""
        more = [f"{name}={value}" for name, value in settings.items()]
        (self._at / "slurm.conf").write_text("\n".join([*self._lines, *more]) + "\n")
        self.restart_controller()

    def computed_at(self) -> float:
        """Return when the controller last computed uses and priorities, in whole seconds since the
        epoch. A file of its state has this time.
        """
        state = (self._at / "state" / "priority_last_decay_ran").read_bytes()
        return float(int.from_bytes(state[:8], "big"))

    def settle(self) -> None:
        """Cancel all jobs, and wait until none is left."""
        self.run("scancel --state=PENDING; scancel --state=RUNNING; scancel --state=SUSPENDED")
        wait_until(lambda: not self.run("squeue -h").stdout.strip(), "the end of Slurm's jobs")

    def close(self) -> None:
        """End all processes of the cluster."""
        try:
            if "slurmctld" in self._daemons:
                self.settle()
        except (TimeoutError, RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"Slurm's jobs could not be cancelled: {error}", file=sys.stderr)
        finally:
            self._daemons.end()
            shutil.rmtree(self._at, ignore_errors=True)

    def _is_up(self) -> bool:
        self._daemons.check()
        found = self.run("sinfo -h -N -o '%T'").stdout.split()
        return len(found) >= len(self.nodes) and all(one in _UP for one in found)

    def _start_munge(self) -> None:
        key = self._at / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        at = str(self._at / "munge")
        command = [
            str(self._sbin / "munged"), "-F", "--force", f"--key-file={key}",
            f"--socket={at}.socket", f"--pid-file={at}.pid", f"--seed-file={at}.seed",
            f"--log-file={at}.log",
        ]  # fmt: skip
        self._daemons.start("munged", command, self.env)
        wait_until(lambda: Path(f"{at}.socket").exists(), "munge")

    def _start_accounts(self) -> None:
        data, password = self._at / "database", secrets.token_hex(16)
        first = self._at / "first.sql"
        first.write_text(
            f"CREATE USER slurm@'127.0.0.1' IDENTIFIED BY '{password}';\n"
            "GRANT ALL ON *.* TO slurm@'127.0.0.1';\n"
        )
        # a database that starts removes all temporary tables in this directory, also those of other
        # databases
        temporary = self._at / "temporary"
        temporary.mkdir()
        env = {**self.env, "TMPDIR": str(temporary)}
        share = self._files / "usr/share/mysql"
        common = ["--no-defaults", f"--datadir={data}", f"--lc-messages-dir={share}"]
        made = subprocess.run(
            [str(self._files / "usr/bin/mariadb-install-db"), "--no-defaults", "--user=root",
             f"--datadir={data}", f"--basedir={self._files / 'usr'}",
             "--auth-root-authentication-method=normal", "--skip-test-db"],
            env=env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if made.returncode:
            raise RuntimeError(f"mariadb-install-db: {made.stdout}{made.stderr}")
        self._daemons.start(
            "mariadbd",
            [str(self._sbin / "mariadbd"), *common, "--user=root", "--bind-address=127.0.0.1",
             f"--port={self._database_port}", f"--socket={self._at / 'database.socket'}",
             f"--pid-file={self._at / 'database.pid'}", f"--init-file={first}",
             "--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=0",
             f"--plugin-dir={self._files / 'usr/lib/mysql/plugin'}", "--skip-log-bin"],
            env,
        )  # fmt: skip
        wait_until(self._database_answers, "the database")
        path = self._at / "slurmdbd.conf"
        path.write_text(
            f"AuthType=auth/munge\nAuthInfo=socket={self._at / 'munge'}.socket\n"
            f"DbdHost=localhost\nDbdAddr=127.0.0.1\nDbdPort={self._accounts_port}\n"
            f"SlurmUser=root\nPidFile={self._at / 'slurmdbd.pid'}\n"
            f"PluginDir={self._files / 'usr/lib/x86_64-linux-gnu/slurm-wlm'}\n"
            f"StorageType=accounting_storage/mysql\nStorageHost=127.0.0.1\n"
            f"StoragePort={self._database_port}\nStorageUser=slurm\nStoragePass={password}\n"
            "StorageLoc=accounts\n"
        )
        path.chmod(0o600)
        self._daemons.start("slurmdbd", [str(self._sbin / "slurmdbd"), "-D"], self.env)
        wait_until(lambda: self.run("sacctmgr -n list cluster").returncode == 0, "Slurm's accounts")
        self.run("sacctmgr -i add cluster beside")

    def _database_answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._database_port), 1).close()
        except OSError:
            return False
        return True

    def _write_settings(self) -> None:
        host = socket.gethostname()
        spool, state = self._at / "spool", self._at / "state"
        for path in (spool, state):
            path.mkdir()
        socket_path = f"{self._at / 'munge'}.socket"
        lines = {
            "ClusterName": "beside",
            "SlurmctldHost": f"{host}(127.0.0.1)",
            "SlurmctldPort": str(self._port),
            "SlurmUser": "root",
            "SlurmdUser": "root",
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={socket_path}",
            "CredType": "cred/munge",
            "PluginDir": str(self._files / "usr/lib/x86_64-linux-gnu/slurm-wlm"),
            "StateSaveLocation": str(state),
            "SlurmdSpoolDir": f"{spool}/%n",
            "SlurmctldPidFile": f"{self._at}/slurmctld.pid",
            "SlurmdPidFile": f"{self._at}/%n.pid",
            "SlurmctldLogFile": f"{self._at}/slurmctld.log",
            "SlurmdLogFile": f"{self._at}/%n.log",
            **({"GresTypes": "gpu"} if self._gpus else {}),
        }
        if self._has_accounts:
            lines |= {
                "AccountingStorageType": "accounting_storage/slurmdbd",
                "AccountingStorageHost": "127.0.0.1",
                "AccountingStoragePort": str(self._accounts_port),
                "AccountingStoragePass": socket_path,
            }
        lines |= self._settings
        gres = f" Gres=gpu:{self._gpus}" if self._gpus else ""
        nodes = [
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port}"
            f" CPUs={self.cpus} RealMemory=4000{gres} State=UNKNOWN"
            for name, port in zip(self.nodes, self._node_ports, strict=True)
        ]
        self._lines = [
            *(f"{name}={value}" for name, value in lines.items()), *nodes, self._partitions,
        ]  # fmt: skip
        (self._at / "slurm.conf").write_text("\n".join(self._lines) + "\n")
        (self._at / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        if self._gpus:
            # Slurm counts only devices that have a file, and accepts any character device
            devices = f"Name=gpu File=/dev/tty[0-{self._gpus - 1}]\n"
            (self._at / "gres.conf").write_text(devices)

    def _start_node(self, name: str) -> None:
        command = [
            str(self._sbin / "slurmd"), "-D", "-N", name, "-f", str(self._at / "slurm.conf"),
            "-d", str(self._sbin / "slurmstepd"),
        ]  # fmt: skip
        self._daemons.start(name, command, self.env)


_UP = {
    "idle", "mixed", "allocated", "reserved", "maint", "completing", "draining", "drained",
}  # fmt: skip
