"""The command line as `python -m phalanx`."""

from phalanx.cli import main

if __name__ == "__main__":  # not in processes that multiprocessing spawns from this one
    main()
