"""The test split's hash: written once, before the split is first run.

    python -m plant.frozen          in `benchmarks`: writes `frozen.json` where there is none

In: the cases of the test split.  Out: the SHA-256, by case, of both sources and what decides how
they run. Sources were frozen before anything of them was measured; who changes a case changes
`frozen.json` for everybody to see, and its results are then no longer of a split that nobody knew.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .cases_test import CASES
from .twins import frozen_hash

__all__ = ["FILE", "held"]

FILE = Path(__file__).parent / "frozen.json"


def held() -> dict[str, str]:
    """What was frozen."""
    found: dict[str, str] = json.loads(FILE.read_text())
    return found


if __name__ == "__main__":
    if FILE.exists():
        sys.exit(f"{FILE} is there: the split was frozen before")
    FILE.write_text(json.dumps(frozen_hash(CASES), indent=1) + "\n")
