"""An owner's objects: their values, the processes that hold them, and the reconstruction of lost
objects.
"""
