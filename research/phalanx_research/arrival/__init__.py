"""The arrival experiment: pods come one after another and stay; how much of the GPUs gets used."""
