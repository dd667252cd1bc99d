"""Installing Phalanx as services of systemd: `units` writes their texts, `plan` lists the steps,
`steps` carries them out.
"""
