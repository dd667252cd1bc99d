"""Systems that run functions in processes. Each is used in the way that is best for it."""
