"""An owner's objects: their values, who else holds them, and how lost ones are made again."""
