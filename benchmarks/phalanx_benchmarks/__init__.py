"""The benchmark: Ray's rows and our own, on Phalanx and, in the same run, on Ray."""
