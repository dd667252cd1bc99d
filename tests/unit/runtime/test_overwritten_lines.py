"""Lines that a progress bar overwrites: which of them are passed on."""

from __future__ import annotations

import pytest

from phalanx.runtime.worker.fork_server import last_state


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (b"plain", b"plain"),
        (b"", b""),
        (b"\r  0%\r 50%\r100%", b"100%"),
        (b"50%\r51%\r", b"51%\r"),
        (b"dos line\r", b"dos line\r"),
        (b"\r\r\r", b"\r"),
    ],
)
def test_the_last_state_of_a_line(printed, shown):
    assert last_state(printed) == shown


def test_what_comes_after_a_carriage_return_goes_over_what_stood_there():
    assert last_state(last_state(b"50%\r") + b"51%") == b"51%"
    assert last_state(last_state(b"50%") + b"\r51%") == b"51%"
