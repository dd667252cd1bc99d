"""The benchmark of a stream of jobs: all jobs that it submits end and are counted."""

from __future__ import annotations

import time

from phalanx_benchmarks import job_stream


def test_a_stream_of_jobs_is_submitted_and_ends():
    (row,) = job_stream.run(time.perf_counter, rate=200, seconds=0.5)
    assert row["what"] == "100 jobs at 200 a second"
    assert row["looked at"] == 2
    assert 0 < row["p50 ms"] <= row["p99 ms"]
    assert row["ended per s"] <= row["submitted per s"]
    assert all(row[f"{who} ms"] >= 0 for who in ("head", "node", "commands", "submitting"))
