"""Systems that run functions in processes, each by its own best idiom."""
