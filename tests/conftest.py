"""For all tests: `init()` starts a runtime of its own, whatever cluster runs on this machine."""

from __future__ import annotations

import os

os.environ["PHALANX_ADDRESS"] = "local"
