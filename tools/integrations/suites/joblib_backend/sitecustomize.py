"""Registers the backend with joblib in every process that the suite starts.

A program would call `register_phalanx()`; the suite's own programs do not know that they should.
"""

from phalanx.util.joblib import register_phalanx

register_phalanx()
