"""Several simulated machines: each is a network namespace with its own address.

They are connected to a bridge in a separate namespace, so nothing here changes this machine's
network.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.present import present
from tests.system_programs import find_tool

HERE = Path(__file__).parent


IP, TC = find_tool("ip"), find_tool("tc")


def why_no_hosts():
    """Return why this process cannot make network namespaces; "" if it can."""
    if IP is None or TC is None:
        return "ip or tc is missing: apt-get install iproute2"
    name = f"phx-{os.getpid()}"
    made = subprocess.run([IP, "netns", "add", name], capture_output=True, check=False)
    subprocess.run([IP, "netns", "del", name], capture_output=True, check=False)
    return f"no network namespaces here: {made.stderr.decode()}" if made.returncode else ""


class Network:
    """A switch, and the hosts that are connected to it."""

    def __init__(self):
        self.directory = Path(tempfile.mkdtemp(prefix="phx-", dir="/tmp"))
        """Short: sockets lie in it."""
        self.hosts = []
        self.switch = f"phx-{os.getpid()}-sw"
        ip("netns", "add", self.switch)
        ip("-n", self.switch, "link", "add", "name", "br0", "type", "bridge")
        ip("-n", self.switch, "link", "set", "br0", "up")

    def add_host(self):
        host = Host(self, len(self.hosts) + 1)
        self.hosts.append(host)
        return host

    def close(self):
        for host in self.hosts:
            host.close()
        ip("netns", "del", self.switch)
        shutil.rmtree(self.directory)


class Host:
    """One host: its daemons and programs run in its namespace."""

    def __init__(self, network, number):
        self.network = network
        self.namespace = f"phx-{os.getpid()}-{number}"
        self.address = f"10.77.0.{number}"
        self.port = f"p{number}"
        self.directory = network.directory / f"h{number}"
        self.directory.mkdir(mode=0o700)
        self.processes = []
        ip("netns", "add", self.namespace)
        ip("-n", self.namespace, "link", "set", "lo", "up")
        peer = ("type", "veth", "peer", "name", "eth0", "netns", self.namespace)
        ip("-n", network.switch, "link", "add", self.port, *peer)
        ip("-n", network.switch, "link", "set", self.port, "master", "br0", "up")
        ip("-n", self.namespace, "addr", "add", f"{self.address}/24", "dev", "eth0")
        ip("-n", self.namespace, "link", "set", "eth0", "up")

    def cut(self):
        """Disconnect the host from the switch."""
        ip("-n", self.network.switch, "link", "set", self.port, "down")

    def heal(self):
        ip("-n", self.network.switch, "link", "set", self.port, "up")

    def slow_down(self, rate):
        """Limit the host's incoming traffic to this rate in total, written as for `tc`."""
        shape = ("tbf", "rate", rate, "burst", "32kbit", "latency", "2s")
        where = ("qdisc", "add", "dev", self.port, "root")
        run(TC, "-n", self.network.switch, *where, *shape)

    def start(self, kind, **options):
        """Start a head or a node on this host; return its announcement as a dict."""
        options["temp_dir"] = str(self.directory / "r")
        options["token_file"] = str(self.network.directory / "token")
        process = self.popen("daemon.py", kind, json.dumps(options))
        line = process.stdout.readline()
        assert line, "the daemon did not start"
        return json.loads(line)

    def popen(self, program, *arguments):
        """Run one of the programs in this folder, with pipes as its input and output."""
        process = subprocess.Popen(
            [
                present(IP),
                "netns",
                "exec",
                self.namespace,
                sys.executable,
                str(HERE / program),
                *arguments,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def logs(self):
        return "\n".join(
            f"---- {self.namespace} {path.name}\n{path.read_text()}"
            for path in sorted(self.directory.glob("r/logs/*"))
        )

    def close(self):
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.stdout.close()
            process.wait()
        ip("netns", "del", self.namespace)


def ip(*arguments):
    run(IP, *arguments)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
