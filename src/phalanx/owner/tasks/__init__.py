"""An owner's tasks: submitted, run on leased workers, tried again, ended."""
