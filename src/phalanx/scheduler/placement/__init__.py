"""Pure decisions about the placement of single tasks, actors and bundles, and about workers to end,
with the reasons for every rejection.
"""
