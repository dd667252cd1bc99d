"""The end of a command: its exit code, its last output, and handlers that run at the end."""

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
