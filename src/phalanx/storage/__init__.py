"""What outlives the control process: tables of bytes in memory, SQLite or Redis, and a journal."""
