"""Systems that run functions in processes. Each is used in its best way."""
