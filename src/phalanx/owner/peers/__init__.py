"""The processes that an owner speaks with, and connections that end while both sides live."""
