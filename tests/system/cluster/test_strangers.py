"""The parts of a whole cluster that strangers can reach: the gateways, which listen on loopback,
and nothing behind them.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import stat
from pathlib import Path

import psutil
import pytest

import phalanx
from phalanx.errors import AuthenticationError
from phalanx.runtime.daemons import cluster_token

GUARD = """
import os, pickle, _pickle, sys

DAEMONS = ("phalanx.runtime.head.process", "phalanx.runtime.node.process")
ME = os.getpid()

def guarded(call):
    def opened(*args, **kwargs):
        if os.getpid() == ME:  # workers begin as copies of the node
            os._exit(86)
        return call(*args, **kwargs)
    return opened

class Unpickler(pickle.Unpickler):
    def __init__(self, *args, **kwargs):
        if os.getpid() == ME:
            os._exit(86)
        super().__init__(*args, **kwargs)

if any(name in sys.orig_argv for name in DAEMONS):
    for module in (pickle, _pickle):
        module.load, module.loads = guarded(module.load), guarded(module.loads)
    pickle.Unpickler = _pickle.Unpickler = Unpickler
"""


@phalanx.remote
def echo(x):
    return x


@phalanx.remote
class Echo:
    def echo(self, x):
        return x


def daemons(cluster):
    """Return the head and nodes with their helper processes (gateways and fork servers), without
    workers.
    """
    roots = [cluster._head.process.pid, *(node.pid for node in cluster.list_all_nodes())]
    for root in map(psutil.Process, roots):
        yield from (root, *root.children())


def listening(cluster):
    """Return (host, port) of each TCP socket on which a process of the cluster listens."""
    found = set()
    for daemon in daemons(cluster):
        for process in (daemon, *daemon.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):  # a child of a fork server may just end
                found |= {
                    (each.laddr.ip, each.laddr.port)
                    for each in process.net_connections("tcp")
                    if each.status == psutil.CONN_LISTEN
                }
    return found


def test_only_gateways_listen_and_only_on_loopback(new_cluster):
    cluster = new_cluster(1, 1)
    found = listening(cluster)
    assert {host for host, _ in found} == {"127.0.0.1"}
    assert len(found) == 3  # of the head and of two nodes
    assert f"127.0.0.1:{cluster.address.rpartition(':')[2]}" == cluster.address


def test_garbage_at_every_port_leaves_the_cluster_at_work(new_cluster, get):
    cluster = new_cluster(1, 1)
    before = {process.pid for process in daemons(cluster)}
    actor = Echo.options(name="kept").remote()
    rng = random.Random(7)
    kinds = (
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\xff" * 4096,
        b"\x80\x05\x95\x1f\x00\x00\x00cposix\nsystem\n",
    )
    for host, port in sorted(listening(cluster)):
        for i in range(12):
            with socket.create_connection((host, port)) as sock:
                sock.sendall(kinds[i] if i < len(kinds) else rng.randbytes(1 << i))
    assert get([echo.remote(i) for i in range(100)]) == list(range(100))
    assert get(actor.echo.remote(1)) == 1
    assert before <= {process.pid for process in daemons(cluster)}


def test_another_token_opens_nothing(new_cluster, tmp_path):
    cluster = new_cluster(1)
    phalanx.shutdown()
    other = tmp_path / "token"
    tmp_path.chmod(0o700)
    cluster_token.ensure(str(other))
    from phalanx.runtime.daemons.starting import NodeOptions, start_node

    with pytest.raises(AuthenticationError, match="token"):
        start_node(
            NodeOptions(
                head=cluster.address,
                resources={"CPU": 1.0},
                object_store_bytes=10**8,
                token_file=str(other),
                temp_dir=cluster.temp_dir,
            )
        )


def test_what_lies_on_disk_is_the_users_own(new_cluster):
    cluster = new_cluster(1)
    token = Path(cluster._token_file)
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    for path in [Path(cluster.temp_dir), *Path(cluster.temp_dir).rglob("*")]:
        mode = stat.S_IMODE(os.lstat(path).st_mode)
        assert not mode & 0o077 or path.is_symlink(), f"{path} has mode {mode:o}"


def test_heads_and_nodes_open_no_pickle(new_cluster, get, tmp_path, monkeypatch):
    """Workers and drivers unpickle data from processes of their own job; daemons never do."""
    (tmp_path / "sitecustomize.py").write_text(GUARD)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    cluster = new_cluster(1, 1)
    assert get([echo.remote(i) for i in range(50)]) == list(range(50))
    actor = Echo.options(name="kept", lifetime="detached").remote()
    assert get(actor.echo.remote([1])) == [1]
    with pytest.raises(ZeroDivisionError):
        get(phalanx.remote(lambda: 1 / 0).remote())
    cluster.add_node(num_cpus=1)
    assert get([echo.remote(i) for i in range(50)]) == list(range(50))
