"""Systems of actors, each in the form that the rows about actors use."""
