"""Installs Phalanx as services of systemd. `units` writes the texts of the units, `plan` lists the
steps, and `steps` carries them out.
"""
