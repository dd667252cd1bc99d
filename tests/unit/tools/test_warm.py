"""Daemons of tests are forked from the warm parent, and the tests notice if one is not."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

from tests.warm import PRELOADED, WarmPopen

from phalanx.runtime.os.environment import child_environment


def test_what_is_imported_beforehand_is_there() -> None:
    assert [name for name in PRELOADED if importlib.util.find_spec(name) is None] == []


def test_the_environment_of_daemons_is_one_that_the_parent_serves() -> None:
    assert WarmPopen.serves(["-m", "phalanx.runtime.node.process"], child_environment())


def test_other_settings_of_the_interpreter_need_one_of_its_own() -> None:
    other: dict[str, Any] = {**os.environ, "PYTHONPATH": "/nowhere"}
    assert not WarmPopen.serves(["-m", "phalanx.cli"], other)
    assert not WarmPopen.serves(["program.py"], dict(os.environ))
