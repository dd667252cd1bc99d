"""The actions of a cycle, one file each. They use the session. No action knows a plugin or another
action.
"""
