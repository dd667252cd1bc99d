"""The part of a driver or worker that submits work, owns and lends objects, and waits for them. Any
thread may use it.
"""
