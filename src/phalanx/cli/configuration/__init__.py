"""The configuration file: options of `phalanx start` and `phalanx dashboard` as TOML.

`lines` finds the line of each key. `keys` checks values by the declarations of the options, and
`values` has the checks of single options. `sources` decides which of several values applies.
"""
