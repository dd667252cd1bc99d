"""What a Ray program may rely on, checked alike on every engine that is installed."""
