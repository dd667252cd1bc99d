"""Job nouns: what a job asks for, the states it goes through, and what is known of it."""
