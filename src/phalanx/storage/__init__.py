"""What outlives the head process: tables of bytes in memory, SQLite or Redis, and a journal."""
