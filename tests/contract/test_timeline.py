"""`timeline`: what ran, in the format that trace viewers open."""

from __future__ import annotations

import json


def test_the_timeline_holds_what_ran(ray, get, eventually):
    @ray.remote
    def a_task_to_be_seen():
        return 1

    get(a_task_to_be_seen.remote())
    eventually(lambda: any("a_task_to_be_seen" in str(event) for event in ray.timeline()))


def test_events_of_the_timeline_have_a_phase_and_a_time(ray, get, eventually):
    get(ray.remote(lambda: 1).remote())
    eventually(lambda: any(event["ph"] == "X" for event in ray.timeline()))
    for event in ray.timeline():
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert event["ts"] > 0
            assert {"name", "pid", "tid", "cat"} <= set(event)


def test_the_timeline_is_written_to_a_file(ray, get, tmp_path):
    get(ray.remote(lambda: 1).remote())
    path = tmp_path / "timeline.json"
    assert ray.timeline(filename=str(path)) is None
    assert isinstance(json.loads(path.read_text()), list)
