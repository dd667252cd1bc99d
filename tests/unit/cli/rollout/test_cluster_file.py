"""The file of `phalanx up`: what it describes, and the line of each fault."""

from __future__ import annotations

import tomllib

import pytest

from phalanx.cli.rollout.cluster_file import Cluster, FileFaultsError, Install, read_cluster

WHOLE = """\
head = "alpha"
standby = "beta"

[install]
package = "dist/phalanx-0.2.0-py3-none-any.whl[cluster,redis]"
venv = "/opt/phalanx"
pip = ["--no-index"]

[ssh]
user = "lab"
port = 2222
options = ["StrictHostKeyChecking=accept-new"]
parallel = 3

[start]
store = "redis://:secret@10.0.0.9:6379/0"
port = 7000
shared = true

[machines.alpha]
host = "10.0.0.1"
node = false

[machines.beta]
host = "beta.lab"
address = "10.0.0.2"
user = "root"
options = ["ConnectTimeout=3"]
num_cpus = 4
resources = { TPU = 4, license = 5 }
labels = { rack = "é\\"1" }
"""
SMALL = 'head = "a"\n[machines.a]\nhost = "10.0.0.1"\n'


def test_a_whole_file_is_read() -> None:
    cluster = read_cluster(WHOLE, "c.toml")
    assert (cluster.head, cluster.standby, cluster.parallel) == ("alpha", "beta", 3)
    assert cluster.addresses == ("10.0.0.1:7000", "10.0.0.2:7000")
    assert cluster.install.wheel == "dist/phalanx-0.2.0-py3-none-any.whl"
    assert cluster.install.extras == "[cluster,redis]"
    alpha, beta = cluster.machines.values()
    assert (alpha.user, alpha.port, alpha.has_node) == ("lab", 2222, False)
    assert (beta.host, beta.user, beta.address) == ("beta.lab", "root", "10.0.0.2")
    assert beta.options == ("ConnectTimeout=3", "StrictHostKeyChecking=accept-new")


def test_the_options_of_a_machine_are_a_configuration_file() -> None:
    text = read_cluster(WHOLE, "c.toml").options("beta")
    assert tomllib.loads(text) == {
        "start": {
            "store": "redis://:secret@10.0.0.9:6379/0",
            "shared": True,
            "num_cpus": 4,
            "resources": {"TPU": 4, "license": 5},
            "labels": {"rack": 'é"1'},
        }
    }


def test_a_machine_takes_precedence_over_the_options_of_all() -> None:
    text = SMALL + "num_cpus = 1\n[start]\nnum_cpus = 8\nspill_threshold = 2\n"
    assert tomllib.loads(read_cluster(text, "f").options("a"))["start"] == {
        "num_cpus": 1,
        "spill_threshold": 2,
    }


def test_a_small_file_has_defaults() -> None:
    cluster = read_cluster(SMALL, "f")
    assert cluster.install == Install("", "~/.phalanx/venv", "python3", ())
    assert cluster.addresses == ("10.0.0.1:6380",)
    assert isinstance(cluster, Cluster)


def test_a_requirement_is_no_wheel() -> None:
    cluster = read_cluster(SMALL + '[install]\npackage = "phalanx[cluster]==0.2.0"\n', "f")
    assert (cluster.install.wheel, cluster.install.extras) == ("", "")


FAULTS = {
    "no TOML": ('head = "a"\nmachines = [', "f, line 2: is no TOML: "),
    "no head": ('[machines.a]\nhost = "10.0.0.1"\n', "f, line 1: there is no head"),
    "no machine": ('head = "a"\n', "f, line 1: there is no machine: a table [machines.NAME]"),
    "unknown head": (SMALL.replace('"a"', '"aa"'), "f, line 1: head: there is no machine 'aa'"),
    "unknown table": (SMALL + "[intsall]\n", "f, line 4: there is no key 'intsall'; did you mean"),
    "unknown key": (
        SMALL + "\nnum_cpu = 2\n",
        "f, line 5: there is no key 'num_cpu' in [machines.a]; did you mean 'num_cpus'?",
    ),
    "a key of the head": (
        SMALL + 'store = "memory"\n',
        "f, line 4: store is for the head, and belongs to [start].",
    ),
    "a key that follows": (
        SMALL + "[start]\nhead = true\n",
        "f, line 5: head follows from the rest of the file, and is not given in [start].",
    ),
    "a wrong kind": (SMALL + "user = 3\n", "f, line 4: machines.a.user takes a text, not 3."),
    "a wrong list": (
        SMALL + "options = [1]\n",
        "f, line 4: machines.a.options takes a list of texts, not [1].",
    ),
    "no bool for a number": (SMALL + "port = true\n", "f, line 4: machines.a.port takes a whole"),
    "no port": (SMALL + "port = 70000\n", "f, line 4: machines.a.port: 70000 is no port."),
    "a wrong option of start": (
        SMALL + 'num_cpus = "two"\n',
        'f, line 4: machines.a.num_cpus: takes a whole number, not "two".',
    ),
    "a name instead of an address": (
        'head = "a"\n[machines.a]\nhost = "alpha"\n',
        "f, line 3: machines.a: 'alpha' is no IP address. address takes the IP address at which",
    ),
    "an unspecified address": (SMALL + 'address = "0.0.0.0"\n', "f, line 4: machines.a: '0.0.0.0'"),
    "no host": ('head = "a"\n[machines.a]\nuser = "b"\n', "f, line 2: machines.a has no host"),
    "an option instead of a host": (
        'head = "a"\n[machines.a]\nhost = "-oProxyCommand=x"\n',
        "f, line 3: machines.a.host: '-oProxyCommand=x' is no host.",
    ),
    "an option instead of a package": (
        SMALL + '[install]\npackage = "--index-url=x"\n',
        "f, line 5: install.package is empty or begins with -.",
    ),
    "a bad name": (
        SMALL + '[machines."b/c"]\nhost = "10.0.0.2"\n',
        "f, line 4: 'b/c' is no name of a machine",
    ),
    "no table": (
        'head = "a"\n[machines]\na = 3\n',
        "f, line 3: machines.a takes a table, not 3.",
    ),
    "a standby without a store": (
        'standby = "b"\n' + SMALL + '[machines.b]\nhost = "10.0.0.2"\n',
        "f, line 1: the standby needs a store that both machines reach",
    ),
    "a standby with a file": (
        f'standby = "b"\n{SMALL}[machines.b]\nhost = "10.0.0.2"\n[start]\nstore = "/x.db"\n',
        "f, line 1: the standby needs a store that both machines reach",
    ),
    "the head as its standby": ('standby = "a"\n' + SMALL, "f, line 1: the standby's machine is"),
    "neither head nor node": (
        SMALL + '[machines.b]\nhost = "10.0.0.2"\nnode = false\n',
        "f, line 6: machines.b has neither a head nor a node",
    ),
    "a relative token": (
        SMALL + '[start]\ntoken_file = "token"\n',
        "f, line 5: token_file is a path from / or ~, not 'token'.",
    ),
    "nobody at the same time": (SMALL + "[ssh]\nparallel = 0\n", "f, line 5: ssh.parallel is"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_names_its_line(name: str) -> None:
    text, expected = FAULTS[name]
    with pytest.raises(FileFaultsError) as caught:
        read_cluster(text, "f")
    assert str(caught.value).startswith(expected), str(caught.value)


def test_all_faults_are_told() -> None:
    with pytest.raises(FileFaultsError) as caught:
        read_cluster(SMALL + "user = 3\nnum_cpu = 2\n[ssh]\nport = 0\n", "f")
    assert [one.source for one in caught.value.faults] == ["f, line 4", "f, line 5", "f, line 7"]
