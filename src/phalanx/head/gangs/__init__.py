"""Queues, gangs and jobs at the control store; imported when they are first used."""
