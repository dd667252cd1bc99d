"""The one program of Phalanx that runs as root, and needs nothing else of Phalanx (`program`)."""
