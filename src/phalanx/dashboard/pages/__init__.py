"""The data of each page, made only from answers of the head, without a clock, a socket or HTML."""
