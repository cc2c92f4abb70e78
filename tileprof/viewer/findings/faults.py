"""The line about a rule that failed.

In: a fault.  Out: its text.
"""

from __future__ import annotations

import traceback
from pathlib import Path

from tileprof.analyzer import Fault


def fault_text(fault: Fault) -> str:
    """Return what is missing from the report, why, and what to do."""
    last = traceback.extract_tb(fault.error.__traceback__)[-1]
    said = " ".join(f"{type(fault.error).__name__} {fault.error}".split())
    of = f"kernel {fault.kernel}" if fault.kernel else "the program"
    return (
        f"rule {fault.rule} failed on {of} ({said}, at {Path(last.filename).name}:{last.lineno});"
        " the report leaves it out. This is a fault of tileprof. Please report it, with this line."
    )
