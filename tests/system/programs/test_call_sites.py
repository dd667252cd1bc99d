"""Listings show where in the code objects were made, if an environment variable turns this on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import phalanx
from phalanx.util.state import list_actors, list_objects, list_tasks, summarize_objects


@phalanx.remote(num_cpus=0)
def double(value):
    return 2 * value


@phalanx.remote(num_cpus=0)
class Actor:
    def method(self):
        return 1


def load():
    return phalanx.put(1)


phalanx.init(num_cpus=1)
kept = load()
result = double.remote(1)
actor = Actor.remote()
answer = actor.method.remote()
phalanx.get([result, answer])
sites = {row.object_id: row.call_site for row in list_objects()}
for ref in (kept, result, answer):
    print(sites[ref.hex()].replace(__file__, "FILE"))
    assert (ref.call_site() or "disabled") == sites[ref.hex()]
print(summarize_objects()["cluster"]["callsite_enabled"])
tasks = list_tasks(filters=[("type", "!=", "ACTOR_CREATION_TASK")], detail=True)
assert {row.call_site for row in tasks} == (
    {sites[ref.hex()] for ref in (result, answer)} if "|" in sites[kept.hex()] else {None}
)
print(str(list_actors(detail=True)[0].call_site).replace(__file__, "FILE"))
"""
RECORDED = """\
(put object) | FILE:load:18 | FILE:<module>:22
(task call) | FILE:<module>:23
(actor call) | FILE:<module>:25
True
(actor call) | FILE:<module>:24
"""


@pytest.mark.parametrize(
    ("environment", "printed"),
    [
        ({"PHALANX_RECORD_CALL_SITES": "1"}, RECORDED),
        ({"RAY_record_ref_creation_sites": "1"}, RECORDED),
        ({"RAY_record_task_actor_creation_sites": "true"}, RECORDED),
        ({"PHALANX_RECORD_CALL_SITES": "0"}, "disabled\ndisabled\ndisabled\nFalse\nNone\n"),
    ],
)
def test_places_of_objects(tmp_path, monkeypatch, environment, printed):
    program = tmp_path / "program.py"
    Path(program).write_text(PROGRAM)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=True
    )
    assert done.stdout == printed
