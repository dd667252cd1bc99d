"""Log files by Ray's names, and how a log is read to its end."""

from __future__ import annotations

from phalanx.observe.log_lines import LogPiece
from phalanx.util.state.log_files import files_of_node, grouped, worker_file
from phalanx.util.state.log_reading import LogReading

HEAD = {"node_id": "aa", "is_head_node": True}
OTHER = {"node_id": "bb", "is_head_node": False}


def worker(id, node="aa", kind="WORKER"):
    return {"worker_id": id, "node_id": node, "worker_type": kind, "job_id": "01", "pid": 7}


WORKERS = [worker("w1"), worker("d1", kind="DRIVER"), worker("w2", node="bb")]


def test_a_node_has_its_own_log_and_two_of_each_worker():
    assert [file.name for file in files_of_node(OTHER, WORKERS)] == [
        "raylet.out",
        "worker-w2-01-7.out",
        "worker-w2-01-7.err",
    ]


def test_the_heads_log_is_on_its_node():
    first, *others = files_of_node(HEAD, WORKERS)
    assert (first.name, first.node) == ("gcs_server.out", "")
    assert {file.node for file in others} == {"aa"}


def test_names_that_match_are_listed_by_what_they_are_of():
    files = list(files_of_node(HEAD, WORKERS))
    assert grouped(files, "worker*") == {
        "worker_out": ["worker-w1-01-7.out"],
        "worker_err": ["worker-w1-01-7.err"],
    }
    assert grouped(files, "ray*") == {"raylet": ["raylet.out"]}
    assert grouped(files, "*/../*") == {}


def test_a_suffix_stands_for_a_stream():
    assert [worker_file(worker("w"), suffix).stream for suffix in ("out", "err")] == [
        "stdout",
        "stderr",
    ]


def test_a_log_is_read_by_parts_and_on_from_its_end():
    pieces = [
        LogPiece(b"a\nb\n", 1, 4, is_end=False),
        LogPiece(b"c\n", 2, 2),
        LogPiece(b"d\n", 2, 4),
    ]
    asked = []

    def ask(request):
        asked.append((request.node, request.worker, request.file, request.offset))
        return pieces.pop(0)

    log = LogReading(ask, "node", "worker")
    assert list(log.parts()) == [[b"a", b"b"], [b"c"]]
    assert list(log.parts()) == [[b"d"]]
    assert asked == [("node", "worker", *where) for where in ((0, 0), (1, 4), (2, 2))]
