"""Numbers for who watches: what there is under which name, and machines that count it."""
