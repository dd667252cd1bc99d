"""Which of several values of an option is used, and which faults a file can have."""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path
from typing import Any

import pytest

from phalanx.cli.configuration.keys import TABLES, find, keys
from phalanx.cli.configuration.sources import read_environment, read_file, read_sources, settle
from phalanx.cli.configuration.values import OF_HEAD, StartOptions
from phalanx.cli.registry import definition


def written(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def held(given: dict[str, Any], *sources: Any) -> dict[str, Any]:
    return {name: one.value for name, one in settle("start", given, list(sources)).items()}


def test_the_file_has_every_option_of_start() -> None:
    names = set(inspect.signature(definition("start")).parameters)
    assert set(TABLES["start"]) == names == set(StartOptions.__struct_fields__)
    assert set(OF_HEAD) < names


def test_the_defaults_are_those_that_the_help_names() -> None:
    named = {
        key.name: match[1]
        for key in keys().values()
        if key.table == "start" and (match := re.search(r"Default: (\S+)\.$", key.help))
    }
    assert find("patience").read(named.pop("patience"), "") == StartOptions().patience
    assert named == {
        "host": "127.0.0.1", "spill_threshold": "0", "check_every": "10m", "check_limit": "1m",
        "gpu_resource": "GPU",
    }  # fmt: skip
    assert named == {name: str(getattr(StartOptions(), name)) for name in named}


def test_an_option_precedes_a_variable_and_a_variable_the_files(tmp_path: Path) -> None:
    mine = written(tmp_path / "mine.toml", "[start]\nnum_cpus = 3\nnum_gpus = 1\nport = 1\n")
    machine = written(tmp_path / "etc.toml", "[start]\nnum_cpus = 4\nnode_name = 'n'\n")
    variables = {
        "PHALANX_CONFIG": mine, "PHALANX_START_NUM_CPUS": "2", "PHALANX_START_PORT": "5",
    }  # fmt: skip
    sources = read_sources(variables, machine)
    assert [source.name for source in sources] == ["environment", mine, machine]
    found = settle("start", {"port": 7}, sources)
    assert {name: tuple(one) for name, one in found.items()} == {
        "port": (7, "--port"),
        "num_cpus": (2, "PHALANX_START_NUM_CPUS"),
        "num_gpus": (1, f"{mine}, line 3"),
        "node_name": ("n", f"{machine}, line 3"),
    }


def test_zero_is_a_value_and_an_absent_flag_is_none(tmp_path: Path) -> None:
    file = read_file(written(tmp_path / "c", "[start]\nport = 5\nnum_cpus = 4\ninsecure = true\n"))
    given = {"port": 0, "num_cpus": 0, "insecure": False, "labels": [], "group": None}
    assert held(given, file) == {"port": 0, "num_cpus": 0, "insecure": True}


def test_missing_files_are_no_fault_except_the_one_that_is_named(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "none.toml")
    (_, named) = read_sources({"PHALANX_CONFIG": nowhere}, nowhere + "2")
    assert [str(fault) for fault in named.faults] == [
        f"{nowhere}: cannot be read: No such file or directory"
    ]


def test_one_file_serves_the_head_and_the_nodes_that_join(tmp_path: Path) -> None:
    file = read_file(
        written(tmp_path / "c", "[start]\nhead = true\nstore = ['memory']\nnum_cpus = 2\n")
    )
    assert held({}, file) == {"head": True, "store": ["memory"], "num_cpus": 2}
    assert held({"address": "h:1"}, file) == {"address": "h:1", "num_cpus": 2}
    assert held({"address": "h:1", "store": ["x"]}, file) == {
        "address": "h:1", "store": ["x"], "num_cpus": 2,
    }  # fmt: skip
    joins = read_file(written(tmp_path / "d", "[start]\naddress = 'h:1'\n"))
    assert held({"head": True}, joins) == {"head": True}
    assert held({}, joins, file) == {"address": "h:1", "num_cpus": 2}


FAULTS = [
    ("num_cpsu = 3", "there is no key 'num_cpsu' in [start]; did you mean 'num_cpus'?"),
    ("num_cpus = 'x'", 'start.num_cpus: takes a whole number, not "x".'),
    ("num_cpus = true", "start.num_cpus: takes a whole number, not true."),
    ("head = 1", "start.head: takes true or false, not 1."),
    ("port = 70000", "start.port: takes a number of at least 0 and at most 65535, not 70000."),
    ("patience = '1 parsec'", "start.patience: a duration is like"),
    ("patience = 0.5", "start.patience: 0.5 is not allowed"),
    ("host = '0.0.0.0'", "start.host: --host takes an address at which other nodes"),
    ("labels = ['a']", "start.labels: Label string is not a key-value pair."),
    ("limit = { misses = 'x' }", "start.limit: --limit misses takes a number, not 'x'."),
    ("limit = { missess = 3 }", "; did you mean 'misses'?"),
    ("history = ['days']", "start.history: --history takes NAME=NUMBER"),
    ("check = { 'a b' = 'true' }", "start.check: --check takes NAME=COMMAND"),
    ("check_every = '0.1s'", "start.check_every: --check-every takes at least 1 s"),
    ("check_limit = 'x'", "start.check_limit: --check-limit:"),
    ("placement = 'nearest'", "start.placement:"),
    ("resources = 'x'", "start.resources: --resources takes a JSON object"),
    ("resources = { a = 1979-05-27 }", "start.resources:"),
    ("system_config = { max_lineage_bytes = 'x' }", "start.system_config:"),
    ("ports = '9-1'", "start.ports:"),
    ("object_store_memory = 'much'", "start.object_store_memory:"),
    ("store = [1]", "start.store: takes a list of text, not 1."),
]


@pytest.mark.parametrize(("line", "text"), FAULTS)
def test_a_fault_names_its_line(line: str, text: str, tmp_path: Path) -> None:
    path = written(tmp_path / "c.toml", f"# first\n[start]\n{line}\n")
    (fault,) = read_file(path).faults
    assert fault.source == f"{path}, line 3"
    assert text in fault.text
    with pytest.raises(ValueError, match=r"c\.toml, line 3: .*phalanx config check"):
        settle("start", {}, [read_file(path)])


def test_faults_outside_of_values(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    assert [str(fault) for fault in read_file(written(file, "[strat]\nx = 1\n")).faults] == [
        f"{file}, line 1: there is no table 'strat'; did you mean 'start'? The tables are "
        "[start], [dashboard]."
    ]
    (fault,) = read_file(written(file, "[start]\nhead = tru\n")).faults
    assert str(fault).startswith(f"{file}, line 2: is no TOML: Invalid value")
    assert str(fault).endswith(".")
    written(file, "[start]\nhead = true\n")
    file.chmod(0o622)
    assert [str(fault) for fault in read_file(str(file)).faults] == [
        f"{file}: can be changed by others (mode 0622): chmod go-w it."
    ]
    file.chmod(0o600)
    file.write_bytes(b"[start]\nnode_name = '\xff'\n")
    assert [fault.text for fault in read_file(str(file)).faults] == [
        "cannot be read: it is not UTF-8"
    ]
    assert [fault.text for fault in read_file(str(tmp_path)).faults] == [
        "cannot be read: Is a directory"
    ]


def test_tables_and_paths_are_read_as_the_options_are_written(tmp_path: Path) -> None:
    path = written(
        tmp_path / "c.toml",
        "[start]\nlabels = {zone = 'a', rack = 1}\nresources = {TPU = 4}\n"
        "placement = {policy = 'selector', same_rack = 'prefer'}\nstore = 'head.db'\n"
        "token_file = 'token'\nobject_store_memory = '1GiB'\n"
        "[dashboard]\nname = 'lab'\ncertificate = 'a.pem'\n",
    )
    file = read_file(path)
    assert file.faults == []
    assert {name: one.value for name, one in file.settings.items()} == {
        "start.labels": ["zone=a", "rack=1"],
        "start.resources": '{"TPU": 4}',
        "start.placement": '{"policy": "selector", "same_rack": "prefer"}',
        "start.store": [str(tmp_path / "head.db")],
        "start.token_file": str(tmp_path / "token"),
        "start.object_store_memory": 2**30,
        "dashboard.name": ["lab"],
        "dashboard.certificate": tmp_path / "a.pem",
    }


def test_variables_are_read_as_their_options(tmp_path: Path) -> None:
    variables = {
        "PHALANX_START_HEAD": "yes", "PHALANX_START_INSECURE": "0", "PHALANX_START_PORT": "x",
        "PHALANX_START_LABELS": "a=1 b=2", "PHALANX_START_PATIENCE": "2m",
        "PHALANX_TOKEN_FILE": "t", "PHALANX_START_SHARED": "maybe", "PHALANX_START_GROUP": "",
    }  # fmt: skip
    source = read_environment(variables)
    assert {name: one.value for name, one in source.settings.items()} == {
        "start.head": True, "start.insecure": False, "start.labels": ["a=1", "b=2"],
        "start.patience": 120.0, "start.token_file": os.path.abspath("t"),
    }  # fmt: skip
    assert [str(fault) for fault in source.faults] == [
        "PHALANX_START_PORT: takes a whole number, not 'x'.",
        "PHALANX_START_SHARED: takes 1 or 0, not 'maybe'.",
    ]


@pytest.mark.parametrize("word", ["start.num_cpus", "num-cpus", "--num-cpus", "num_cpus"])
def test_a_key_is_found_by_each_of_its_names(word: str) -> None:
    assert find(word).path == "start.num_cpus"


def test_an_unknown_key_suggests_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"There is no key 'num-cpsu'; did you mean 'num_cpus'\?"):
        find("num-cpsu")
