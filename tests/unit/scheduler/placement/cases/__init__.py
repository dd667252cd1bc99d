"""Tables of cases about placement: a strict schema, and a runner for each kind of table."""
