"""The benchmark: rows of Ray's benchmarks and Phalanx's own rows, measured in the same run on
Phalanx and on Ray.
"""
