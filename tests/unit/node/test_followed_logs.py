"""Logs that a command in the foreground shows: members wait until the command has read them, and
nothing is deleted unread.
"""

from __future__ import annotations

from signal import SIGCONT, SIGSTOP

import pytest

from phalanx.node.followed_logs import (
    ENOUGH_UNREAD_BYTES,
    MOST_UNREAD_BYTES,
    PATIENCE_S,
    FollowedLogs,
)

LOG = "/a.log"


@pytest.fixture
def logs():
    logs = FollowedLogs()
    logs.begin(LOG, 10.0)
    return logs


def test_a_member_stops_above_the_most_and_goes_on_when_little_is_unread(logs):
    steps = [
        (0, MOST_UNREAD_BYTES, 0),
        (0, MOST_UNREAD_BYTES + 1, SIGSTOP),
        (0, MOST_UNREAD_BYTES + 1, SIGSTOP),
        (MOST_UNREAD_BYTES // 2, MOST_UNREAD_BYTES + 1, SIGSTOP),
        (MOST_UNREAD_BYTES + 1 - ENOUGH_UNREAD_BYTES, MOST_UNREAD_BYTES + 1, SIGCONT),
        (MOST_UNREAD_BYTES + 1, MOST_UNREAD_BYTES + 1, 0),
        (MOST_UNREAD_BYTES + 1, 2 * MOST_UNREAD_BYTES + 2, SIGSTOP),
    ]
    for read_to, size, expected in steps:
        logs.read(LOG, read_to, 11.0)
        assert logs.signal(LOG, size) == expected, (read_to, size)


def test_a_late_question_takes_nothing_back(logs):
    logs.read(LOG, 100, 11.0)
    logs.read(LOG, 50, 12.0)
    assert logs.read_to(LOG) == 100


def test_a_command_that_is_not_heard_of_is_taken_for_gone(logs):
    logs.read(LOG, 0, 20.0)
    assert logs.silent(20.0 + PATIENCE_S) == []
    assert logs.silent(20.1 + PATIENCE_S) == [LOG]
    logs.forget(LOG)
    assert (len(logs), logs.read_to(LOG), logs.go_on(LOG)) == (0, None, 0)


def test_only_logs_of_followed_jobs_are_followed(logs):
    logs.read("/other.log", 5, 11.0)
    assert logs.read_to("/other.log") is None
