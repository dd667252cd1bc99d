"""Policies that only the simulator has, for comparison. No cluster runs these policies, and they do
not use the head's deciding code. They follow Muri's simulator (Zhao et al., SIGCOMM 2022) and its
rules: everything is decided again at each arrival and finish, and every event costs each running
job as much time as a start.

    from phalanx_research.timed.studied import simulate_studied

Each policy is a module: `muri` (Muri-S and Muri-L), `antman`, `themis`. `loop` runs them.
"""

from phalanx_research.timed.studied.catalogue import STUDIED, studied
from phalanx_research.timed.studied.loop import simulate_studied

__all__ = ["STUDIED", "simulate_studied", "studied"]
