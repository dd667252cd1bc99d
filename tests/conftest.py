"""For all tests: `init()` starts a runtime of its own, whatever cluster runs on this machine, and
programs can be interrupted, also where the tests were started in the background."""

from __future__ import annotations

import os
import signal

os.environ["PHALANX_ADDRESS"] = "local"
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
