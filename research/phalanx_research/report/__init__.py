"""One self-contained HTML page that shows any number of simulated runs side by side."""
