"""Special exit codes of commands, in the convention of shells and `timeout`."""

from __future__ import annotations

TIMED_OUT = 124
"""The command ran longer than allowed."""
NOT_STARTED = 126
"""The command could not be started."""
NOT_FOUND = 127
"""The command does not exist."""
SIGNALLED = 128
"""The command was ended by a signal, whose number is added to this code."""
KILLED = SIGNALLED + 9
"""The command was ended by SIGKILL."""
