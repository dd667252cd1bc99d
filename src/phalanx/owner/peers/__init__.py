"""The connections of an owner, including those that end while both sides live."""
