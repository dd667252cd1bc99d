"""The actions, one file each. They use the session, but know no plugin and no other action."""
