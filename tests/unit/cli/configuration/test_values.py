"""The checks of `phalanx start` before a head starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest

from phalanx.cli.cluster_start import start_head
from phalanx.cli.configuration.values import StartOptions, check_amounts, check_node, check_value
from phalanx.runtime.daemons import local, starting
from phalanx.runtime.os.detection import memory_bytes

TOO_MUCH = 99999999999999999999
FAULTS = [
    ({"ports": "abc"}, "^--ports: ports must be numbers and ranges"),
    ({"ports": "99999"}, "^--ports: ports must be 0 to 65535"),
    ({"node_name": "bad_name!"}, "^--node-name: 'bad_name!' is no valid node name"),
    ({"devices": "nosuch"}, "^--devices: nosuch cannot be read: No such file or directory"),
    ({"num_cpus": TOO_MUCH}, r"^--num-cpus must be at most 9e\+14"),
    ({"num_cpus": -1}, "^--num-cpus must be a whole number of at least 0"),
    ({"num_gpus": TOO_MUCH}, "^--num-gpus must be at most 65536"),
    ({"object_store_memory": TOO_MUCH}, r"^--object-store-memory must be at most 9e\+14"),
    ({"object_store_memory": memory_bytes() + 1}, "is more than the memory of this machine"),
    ({"resources": '{"a": 1e300}'}, r"^--resources\['a'\] must be at most 9e\+14"),
    ({"resources": '{"TPU": 1e6}'}, r"^--resources\['TPU'\] must be at most 65536"),
    ({"resources": '{"": 1}'}, "^--resources has an entry without a name"),
]


@pytest.mark.parametrize(("given", "fault"), FAULTS)
def test_a_faulty_option_of_a_node_is_refused_before_the_head_starts(given, fault, monkeypatch):
    def begins(*_: Any) -> NoReturn:
        raise AssertionError("the head begins")

    monkeypatch.setattr(starting, "start_head", begins)
    monkeypatch.setattr(local, "local_daemons", lambda *_: [])
    with pytest.raises(ValueError, match=fault):
        start_head(StartOptions(head=True, **{"num_gpus": 0, "store": ["memory"], **given}), -1)


@pytest.mark.parametrize("text", ["no JSON", "[]", "{}", '{"devices": [{"index": 1}]}'])
def test_a_file_that_describes_no_devices_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "devices.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"does not describe devices|device 0 has no 'index'"):
        check_node(StartOptions(devices=str(path)))


@pytest.mark.parametrize("text", ['{"devices": [{}]}', '{"hangs": true}', '{"fails": "why"}'])
def test_files_of_devices_may_simulate_trouble(tmp_path: Path, text: str) -> None:
    path = tmp_path / "devices.json"
    path.write_text(text)
    check_node(StartOptions(devices=str(path)))


def test_a_configuration_may_name_a_file_of_another_machine() -> None:
    check_value("devices", "/of/another/machine")


def test_usual_amounts_are_accepted() -> None:
    check_amounts(num_cpus=0, num_gpus=8, resources={"a": 1}, object_store_memory=80 << 20)
