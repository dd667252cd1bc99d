"""Policies that only the simulator has, to be compared with others.

No cluster runs them, and none of the head's deciding code is behind them: they are here as Muri's
simulator (Zhao et al., SIGCOMM 2022) has them, under its rules. Everything is decided again at each
arrival and finish, and every event costs each running job the overhead of a start.

    from phalanx_research.timed.studied import simulate_studied

A policy is a module: `muri` (Muri-S and Muri-L), `antman`, `themis`. `loop` runs them.
"""

from phalanx_research.timed.studied.catalogue import STUDIED, studied
from phalanx_research.timed.studied.loop import simulate_studied

__all__ = ["STUDIED", "simulate_studied", "studied"]
