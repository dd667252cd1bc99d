"""What each page shows, as data: from answers of the head, and from nothing else. No clock, no
socket, no HTML."""
