"""`phalanx doctor` on real homes: a fresh one, one with a head, one with a readable token."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def checks(machine: Any, *options: str) -> tuple[int, dict[str, dict[str, Any]]]:
    done = machine.phalanx("doctor", "--json", *options)
    found = json.loads(done.stdout)
    assert found["format"] == "phalanx-doctor/1"
    return done.returncode, {one["what"]: one for one in found["checks"]}


def test_a_fresh_home_is_well_and_a_head_is_seen(machine: Any) -> None:
    code, found = checks(machine, "--security")
    assert (code, {one["state"] for one in found.values()}) == (0, {"well"})
    address = machine.start_head("--num-cpus", "1", "--num-gpus", "0")
    _, found = checks(machine)
    assert f"head of {address}" in found["daemons"]["said"]


def test_a_token_that_others_can_read_is_bad(machine: Any) -> None:
    token = Path(machine.home) / ".phalanx" / "token"
    token.parent.mkdir(mode=0o700, exist_ok=True)
    token.write_text("t" * 43)
    os.chmod(token, 0o644)
    code, found = checks(machine, "--security")
    assert code == 1
    assert found["token"]["state"] == "bad"
    assert found["token"]["cure"] == f"chmod 0600 {token}"
    assert f"token: chmod 0600 {token}" in machine.phalanx("doctor").stdout
