"""The only program of Phalanx that runs as root (`program`). It needs no other part of Phalanx."""
