"""Registers the backend with joblib in every process that the suite starts.

A program would call `register_phalanx()`, but the suite's own programs do not.
"""

from phalanx.util.joblib import register_phalanx

register_phalanx()
