"""What processes, nodes and people ask of each other: one type for each request, by subject."""
