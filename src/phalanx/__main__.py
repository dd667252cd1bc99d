"""The command line as `python -m phalanx`."""

from phalanx.cli import main

if __name__ == "__main__":  # and not in what multiprocessing spawns from it
    main()
