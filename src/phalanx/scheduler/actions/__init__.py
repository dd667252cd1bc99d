"""The actions, one file each; they know the session, no plugin and nothing of each other."""
