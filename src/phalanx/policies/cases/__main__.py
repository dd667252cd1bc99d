"""`python -m phalanx.policies.cases FILE`: print each case that differs from its file."""

from __future__ import annotations

import sys
from pathlib import Path

from phalanx.policies.cases.compare import Unusable
from phalanx.policies.cases.document import findings


def main(arguments: list[str]) -> int:
    """Status 0 when all agree, 1 when one differs, 2 for a file that cannot be used."""
    if len(arguments) != 1:
        print("usage: python -m phalanx.policies.cases FILE", file=sys.stderr)
        return 2
    cases = differing = unusable = 0
    try:
        for name, found in findings(Path(arguments[0]).read_text(encoding="utf-8")):
            cases += 1
            if isinstance(found, Unusable):
                unusable += 1
                print(f"{name}: cannot be understood: {found}", file=sys.stderr)
                continue
            wrong = [one for one in found if not one.agrees]
            differing += bool(wrong)
            for one in wrong:
                place = f"{name}, {one.what}" if one.what else name
                print(f"{place}: expected {one.expected}, got {one.got}")
    except (OSError, UnicodeDecodeError, Unusable) as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)
        return 2
    told = f", {unusable} cannot be understood" if unusable else ""
    print(f"{cases} cases, {differing} differ{told}")
    return 2 if unusable else 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
