"""The benchmark: Ray's rows and Phalanx's own, measured on Phalanx and, in the same run, on Ray."""
