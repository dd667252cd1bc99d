"""Data that outlives the head process: tables in memory, SQLite or Redis, and their journal."""
