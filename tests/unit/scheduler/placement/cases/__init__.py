"""Tables of cases: one strict schema, and a runner for each kind of table."""
