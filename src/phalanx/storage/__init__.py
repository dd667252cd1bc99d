"""Data that outlives the head process: its tables in memory, SQLite or Redis, and their journal."""
