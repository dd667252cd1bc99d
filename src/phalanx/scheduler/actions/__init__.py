"""The actions, one file each; they know the session, but no plugin and nothing of each other."""
