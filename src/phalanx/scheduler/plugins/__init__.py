"""The plugins, one file each; they know the session and nothing of each other."""
