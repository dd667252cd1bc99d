"""Queues, gangs and jobs at the head; imported when first used."""
