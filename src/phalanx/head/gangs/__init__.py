"""Gangs at the head. Most of this code is imported only when a request first needs it."""
