"""The code of a driver or worker that submits work, owns and lends objects, and waits for objects.
Any thread may use it.
"""
