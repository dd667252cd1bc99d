"""An owner's tasks: their submission, their runs on leased workers, their retries and their end."""
