"""The data of each page, made only from answers of the head: no clock, no socket, no HTML."""
