"""In every process that the suite starts: joblib knows the backend, as a program that calls
`register_phalanx()` has it know. The suite's own programs do not know that they should."""

from phalanx.util.joblib import register_phalanx

register_phalanx()
