"""Rules that a plugin is made of, where they are long enough for a file of their own."""
