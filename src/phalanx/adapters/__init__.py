"""Adapters to other programs, one module or package for each program. An adapter needs its program
installed.

No other part of Phalanx imports adapters. A program imports the adapter that it uses, or the host
program finds the adapter by an entry point. The core finds the adapters of Ray and Slurm by entry
points, too.
"""
