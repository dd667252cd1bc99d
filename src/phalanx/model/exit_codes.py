"""Exit codes of commands that say more than success or failure, as shells and `timeout` do."""

from __future__ import annotations

TIMED_OUT = 124
"""It ran longer than it may."""
NOT_STARTED = 126
"""It could not be started."""
NOT_FOUND = 127
"""There is no such command."""
SIGNALLED = 128
"""It was ended by the signal whose number is added to this."""
KILLED = SIGNALLED + 9
"""It was ended by SIGKILL."""
