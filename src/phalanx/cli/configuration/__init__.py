"""The configuration file: options of `phalanx start` and `phalanx dashboard` as TOML.

`lines` finds the line of each key, `keys` checks values by the declarations of the options,
`values` has the checks of single options, and `sources` chooses one of several values.
"""
