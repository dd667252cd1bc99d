"""Systems that run functions in processes, each used in its own best way."""
