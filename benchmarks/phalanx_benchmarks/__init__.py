"""The benchmark: the rows of Ray's benchmarks and Phalanx's own rows, measured on Phalanx and, in
the same run, on Ray.
"""
