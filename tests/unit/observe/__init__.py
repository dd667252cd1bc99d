"""Events, listings and what they are made of."""
