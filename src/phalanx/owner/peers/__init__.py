"""The connections of an owner. A connection may end while both sides live."""
