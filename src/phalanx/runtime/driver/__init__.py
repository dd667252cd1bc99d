"""The side of a driver or worker that submits, owns, lends and waits: one thread-safe runtime."""
