"""Pure decisions about the places of single tasks, actors and bundles, and about the workers that
must end. Every rejection has its reasons.
"""
