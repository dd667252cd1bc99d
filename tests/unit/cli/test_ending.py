"""How a command ends: its exit code, its last output, and handlers that run at exit."""

from __future__ import annotations

import subprocess
import sys

import pytest

START = "from phalanx.cli.ending import Ended, exiting\n"


def run(code):
    return subprocess.run(
        [sys.executable, "-c", START + code],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("before", ["", "import threading\n"])
@pytest.mark.parametrize(
    ("body", "code", "out", "err"),
    [
        ("print('all', end='')", 0, "all", ""),
        ("print('some', end=''); raise Ended(3)", 3, "some", ""),
        ("print('no', file=sys.stderr); raise Ended(0)", 0, "", "no\n"),
        ("raise SystemExit(5)", 5, "", ""),
        ("raise KeyboardInterrupt", 130, "", ""),
    ],
)
def test_a_command_ends_with_its_code_after_all_its_output(before, body, code, out, err):
    done = run(f"import sys\n{before}with exiting():\n    {body}\n")
    assert (done.returncode, done.stdout, done.stderr) == (code, out, err)


def test_what_a_command_has_registered_for_its_end_still_happens():
    done = run(
        "import atexit\natexit.register(print, 'last')\nwith exiting():\n    print('first')\n"
    )
    assert (done.returncode, done.stdout) == (0, "first\nlast\n")


@pytest.mark.parametrize("end", ["pass", "raise Ended(0)"])
def test_a_command_whose_reader_has_gone_ends_silently(end):
    code = f"{START}import sys\nsys.stdin.read()\nwith exiting():\n    print('lost')\n    {end}\n"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout and process.stdin and process.stderr
        process.stdout.close()
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1


FULL = "The output cannot be written: No space left on device.\n"
PRINTS = "sys.stdout.write('lost')"


@pytest.mark.parametrize("before", ["", "import threading\n"])
@pytest.mark.parametrize(
    ("prefix", "body", "code"),
    [
        ("", PRINTS, 1),
        ("", f"{PRINTS}; sys.stdout.flush()", 1),
        ("", "say('lost')", 1),
        ("", "say('lost'); raise Ended(3)", 1),
        ("", "report('lost'); report('more')", 1),
        ("", "report('lost'); raise Ended(3)", 3),
        ("", "os.write(1, b'lost')", 1),
        ("sinfo: error: ", PRINTS, 1),
    ],
)
def test_a_command_says_in_a_line_that_its_output_cannot_be_written(before, prefix, body, code):
    program = f"{START}import os, sys\nfrom phalanx.cli.table import report, say\n{before}"
    program += f"with exiting({prefix!r}):\n    {body}\n"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (code, prefix * ("report" not in body) + FULL)


def test_an_output_that_was_opened_for_reading_is_a_line_of_error_too():
    with open("/dev/null") as nothing:
        done = subprocess.run(
            [sys.executable, "-c", f"{START}with exiting():\n    print('lost')\n"],
            stdout=nothing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "The output cannot be written: Bad file descriptor.\n"


@pytest.mark.parametrize("before", ["", "import threading\n"])
@pytest.mark.parametrize("code", [0, 3])
def test_a_command_whose_messages_cannot_be_written_goes_on(before, code):
    program = f"{START}from phalanx.cli.table import say\n{before}"
    program += "with exiting():\n    say('waits', err=True)\n    say('result')\n"
    program += f"    say('over', err=True)\n    raise Ended({code})\n"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stdout) == (code, "result\n")


def test_neither_output_nor_messages_can_be_written():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", f"{START}with exiting():\n    print('lost')\n"],
            stdout=full,
            stderr=full,
            check=False,
        )
    assert done.returncode == 1


def test_an_error_of_a_file_that_a_command_opens_is_no_lost_output():
    body = "open('/dev/full/x')"
    done = run(f"with exiting():\n    {body}\n")
    assert done.returncode == 1
    assert "NotADirectoryError" in done.stderr
