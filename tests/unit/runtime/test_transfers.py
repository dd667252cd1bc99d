"""The transfers of objects to a node: what happens to the files of deleted objects."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from phalanx.objects.names import spare_file
from phalanx.protocol.gateway_messages import Pull
from phalanx.runtime.gateway.object_files import ObjectFiles
from phalanx.runtime.gateway.transfers import Transfers
from phalanx.runtime.os.session import Session

NODE, OBJECT, SPARE = "aa", "ab" * 16 + "-1", "ab" * 16 + "-2"


class Blocked:
    """Stands for connections: to borrow one fails, but not before the test lets it."""

    def __init__(self) -> None:
        self.may_fail = threading.Event()

    def borrow(self, node: bytes, fresh: bool) -> Any:
        self.may_fail.wait()
        raise ConnectionError


@pytest.mark.parametrize("is_running", [False, True])
def test_only_files_of_deleted_objects_are_discarded(tmp_path: Any, is_running: bool) -> None:
    places = {name: str(tmp_path / name) for name in ("directory", "shared", "spill", "disk")}
    for place in places.values():
        os.mkdir(place, 0o700)
    elsewhere = tmp_path / spare_file("elsewhere")
    spare = tmp_path / "shared" / spare_file(SPARE)
    for path in (elsewhere, spare):
        path.touch()
    kept: Any = Blocked()
    reported = threading.Event()
    files = ObjectFiles(Session(name="s", **places))
    transfers = Transfers(files, kept, lambda pulled: reported.set())
    if is_running:
        transfers.pull(Pull(OBJECT, 1, [NODE]))
    nodes = [NODE] if is_running else []
    for given in ("../elsewhere", SPARE):
        transfers.pull(Pull(OBJECT, 1, nodes, spare=given))
    assert (elsewhere.exists(), spare.exists()) == (True, False)
    kept.may_fail.set()
    assert reported.wait(60)
