"""An owner's tasks, from submission over runs on leased workers and retries to their end."""
