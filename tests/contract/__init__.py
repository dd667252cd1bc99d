"""The behaviour that a Ray program may rely on, checked alike on every installed engine."""
