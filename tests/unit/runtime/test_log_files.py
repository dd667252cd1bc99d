"""Logs of daemons and workers. They are lines of JSON in at most two files, which are read as one
log.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import pytest

from phalanx.observe.log_lines import ERROR, LogPiece
from phalanx.protocol.node_messages import LogLine
from phalanx.runtime.node import logs as node_logs
from phalanx.runtime.node.logs import NodeLogFiles
from phalanx.runtime.os import daemon_log, log_files
from phalanx.runtime.os.daemon_log import DaemonLog, plain


def line(number, width=0):
    return b'{"time":"2026-11-23T10:00:00.%06dZ","text":"%s"}\n' % (number, b"x" * width)


def read_all(path, piece=None, limit=200):
    """Return all lines after a position, and the last position."""
    piece, data = piece or LogPiece(), b""
    while True:
        piece = log_files.read_on(path, piece.file, piece.offset, limit)
        data += piece.data
        if piece.is_end:
            return data, piece


def test_a_log_is_read_in_parts_and_goes_on_where_it_was_left(tmp_path):
    path = str(tmp_path / "log")
    assert log_files.read_on(path, 0, 0, 100) == LogPiece()
    for number in range(10):
        log_files.append(path, line(number), 1 << 20)
    data, piece = read_all(path)
    assert data == b"".join(map(line, range(10)))
    log_files.append(path, line(10), 1 << 20)
    assert read_all(path, piece)[0] == line(10)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_who_reads_on_misses_nothing_when_the_log_is_turned_over_once(tmp_path):
    path, seen, piece = str(tmp_path / "log"), b"", LogPiece()
    for number in range(100):
        log_files.append(path, line(number), 500)
        if number % 5 == 4:
            data, piece = read_all(path, piece)
            seen += data
    assert seen == b"".join(map(line, range(100)))
    assert sorted(os.listdir(tmp_path)) == ["log", "log.1"]


def test_who_was_away_for_longer_reads_from_the_oldest_on(tmp_path):
    path = str(tmp_path / "log")
    log_files.append(path, line(0), 500)
    _, piece = read_all(path)
    for number in range(1, 100):
        log_files.append(path, line(number), 500)
    data, _ = read_all(path, piece)
    assert data == read_all(path)[0]
    assert data.endswith(line(99))


def test_a_line_that_is_longer_than_a_part_comes_in_pieces(tmp_path):
    path = str(tmp_path / "log")
    log_files.append(path, line(1, width=1000), 1 << 20)
    log_files.append(path, line(2), 1 << 20)
    assert read_all(path, limit=100)[0] == line(1, width=1000) + line(2)


def test_several_processes_turn_a_log_over_without_losing_the_newest_lines(tmp_path):
    path = str(tmp_path / "log")
    code = (
        "import sys; from phalanx.runtime.os import log_files\n"
        "for n in range(300):\n"
        '    text = b\'{"time":"2026-11-23T10:00:00.%s%04dZ"}\\n\' % (sys.argv[2].encode(), n)\n'
        "    log_files.append(sys.argv[1], text, 4000)\n"
    )
    started = [subprocess.Popen([sys.executable, "-c", code, path, str(n)]) for n in range(3)]
    assert [one.wait() for one in started] == [0, 0, 0]
    data, _ = read_all(path)
    assert len(data) > 4000, "the older file is a full one"
    assert all(json.loads(one) for one in data.splitlines())


@pytest.mark.parametrize("worker", ["../other", "a/b", "x\0y"])
def test_the_id_of_a_worker_is_no_path(tmp_path, worker):
    assert NodeLogFiles(str(tmp_path), lambda: 0.0).read(worker, 0, 0, 100) == LogPiece()


def test_what_workers_print_is_kept_with_its_time_stream_and_name(tmp_path):
    logs = NodeLogFiles(str(tmp_path), lambda: 1_700_000_000.25)
    logs.append("ab12", LogLine(7, "train", "so far", True))
    data = logs.read("ab12", 0, 0, 1000).data
    assert json.loads(data) == {
        "time": "2023-11-14T22:13:20.250000Z",
        "stream": "stderr",
        "name": "train",
        "text": "so far",
    }


def test_all_workers_of_a_node_together_have_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(node_logs, "ALL_LOGS_BYTES", 5000)
    logs = NodeLogFiles(str(tmp_path), lambda: 0.0)
    for number in range(100):
        for worker in ("first", f"w{number}"):
            logs.append(worker, LogLine(1, "", f"{worker} prints", False))
    names = os.listdir(tmp_path)
    assert {"worker-first.log", "worker-w99.log"} <= set(names)
    assert "worker-w0.log" not in names
    assert sum(os.stat(tmp_path / name).st_size for name in names) <= 5000


def test_a_daemon_writes_who_it_is_and_a_job_where_there_is_one(tmp_path, monkeypatch):
    path = str(tmp_path / "log")
    log = DaemonLog()
    log.keep(path, "node", "ab12", is_aloud=True)
    log.write("it begins", job="default/train")
    log.become("gateway")
    log.write("two\nlines", ERROR)
    first, second = (json.loads(one) for one in log.read(0, 0, 1 << 20).data.splitlines())
    assert (first["process"], first["node"], first["level"]) == ("node", "ab12", "info")
    assert (first["job"], first["text"]) == ("default/train", "it begins")
    assert (second["process"], second["level"], second["text"]) == (
        "gateway",
        "error",
        "two\nlines",
    )
    assert next(iter(first)) == "time"


def test_a_log_on_a_full_disk_ends_nothing(tmp_path, capsys):
    log = DaemonLog()
    log.keep(str(tmp_path / "no" / "log"), "head")
    log.write("nobody reads this")
    assert capsys.readouterr().err == ""


def test_a_daemon_without_a_log_speaks_on_its_standard_error(capsys):
    DaemonLog().write("the head is back")
    assert capsys.readouterr().err == "phalanx: the head is back\n"


def test_what_the_interpreter_prints_follows_the_log(tmp_path):
    """If the log was rotated before a crash, what the interpreter prints is in the current file."""
    path = str(tmp_path / "log")
    code = (
        "import os, sys; from phalanx.runtime.os import daemon_log\n"
        "daemon_log.DAEMON_LOG_BYTES = 2000\n"
        "daemon_log.LOG.keep(sys.argv[1], 'head')\n"
        "for n in range(30): daemon_log.LOG.write('x' * 100)\n"
        "os.write(2, b'crashed\\n')\n"
    )
    with open(path, "ab") as file:
        subprocess.run([sys.executable, "-c", code, path], stdout=file, stderr=file, check=True)
    text = (tmp_path / "log").read_text()
    assert text.endswith("crashed\n")
    assert plain(text.splitlines()[-1]) == "crashed"
    assert plain(text.splitlines()[0]) == "x" * 100
    assert (tmp_path / "log.1").stat().st_size > 2000
    assert daemon_log.DAEMON_LOG_BYTES > 2000
