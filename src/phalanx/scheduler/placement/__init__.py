"""Pure choices of a node, of bundles, or of workers to end, with the reasons for every
rejection.
"""
