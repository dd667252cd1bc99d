"""An owner: the machines of a process that submits work and owns its objects."""
