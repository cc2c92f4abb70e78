"""Memory of another process over time, so that what is measured does not hold its measurements.

In: the number of a process on Linux.  Out: a line of JSON for each look, `{"at_s", "mb"}`, and with
`parts` what the memory is resident for, less often.

    python -m benchmarks.reliability.memory_watch PID FILE [--each 1.0]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Watched", "mapped_as", "resident_mb", "resident_parts", "watched"]

PARTS_EACH_S = 15.0
"""Between two looks at what memory is resident for, which take milliseconds."""
LARGE_KB = 512
"""Memory that an anonymous mapping must take to be listed by itself: an arena of `malloc` is a
mapping, so that shows which of them grow."""


@dataclass
class Watched:
    """Memory of a process over time, filled when the watch ends."""

    memory_mb: list[list[float]] = field(default_factory=list)
    """Seconds since the begin, and MB that are resident."""
    parts_mb: list[dict[str, Any]] = field(default_factory=list)
    """Resident MB by kind of mapping, each look with its time as `at_s`, in seconds."""


@contextmanager
def watched(path: Path, each_s: float) -> Iterator[Watched]:
    """Watch this process from another one, which writes into a file, while the body runs."""
    path.write_text("")
    command = [sys.executable, "-m", "benchmarks.reliability.memory_watch", str(os.getpid())]
    seen = Watched()
    with subprocess.Popen([*command, str(path), "--each", str(each_s)]) as watcher:
        try:
            yield seen
        finally:
            watcher.terminate()
            watcher.wait()
            for line in path.read_text().splitlines():
                if not line.endswith("}"):
                    continue  # it was cut off
                look = json.loads(line)
                seen.memory_mb.append([look["at_s"], look["mb"]])
                if "parts" in look:
                    seen.parts_mb.append({"at_s": look["at_s"], **look["parts"]})


def resident_mb(process: int) -> float:
    """Return the memory of a process that is resident, in MB of 2**20 bytes.

    Raises:
        OSError: it has ended.
    """
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def resident_parts(process: int) -> dict[str, Any]:
    """Return what memory of a process is resident for, in MB, by mapping."""
    found: Counter[str] = Counter()
    large: dict[str, float] = {}
    mapping, begin = "anonymous", ""
    with open(f"/proc/{process}/smaps") as lines:
        for line in lines:
            name, *rest = line.split()
            if not name.endswith(":"):
                mapping, begin = mapped_as(rest[4] if len(rest) > 4 else ""), name.partition("-")[0]
            elif name == "AnonHugePages:":
                # The system may give a whole such page for one small one, minutes later.
                found[f"{mapping}, in huge pages"] += int(rest[0])
            elif name == "Rss:":
                found[mapping] += int(rest[0])
                if mapping == "anonymous" and int(rest[0]) >= LARGE_KB:
                    large[begin] = round(int(rest[0]) / 1024, 2)
    parts: dict[str, Any] = {f"resident {name}": round(kb / 1024, 2) for name, kb in found.items()}
    return {**parts, "large anonymous": large}


def mapped_as(path: str) -> str:
    """Return what a mapping of /proc/self/smaps is, from the path at its end."""
    if not path:
        return "anonymous"
    if path.startswith("["):
        return "heap" if path == "[heap]" else "stacks and others"
    return "devices" if path.startswith("/dev/") else "files"


def main() -> int:
    """Write lines until the process ends, or this one is ended."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("process", type=int)
    parser.add_argument("file", type=Path)
    parser.add_argument("--each", type=float, default=1.0, metavar="SECONDS")
    options = parser.parse_args()
    began, parts_at = time.monotonic(), -PARTS_EACH_S
    with options.file.open("a", buffering=1) as lines:
        while True:
            at = time.monotonic() - began
            try:
                look: dict[str, Any] = {
                    "at_s": round(at, 2), "mb": round(resident_mb(options.process), 3)
                }  # fmt: skip
                if at - parts_at >= PARTS_EACH_S:
                    parts_at = at
                    look["parts"] = resident_parts(options.process)
            except OSError:
                return 0
            lines.write(json.dumps(look) + "\n")
            time.sleep(options.each)


if __name__ == "__main__":
    sys.exit(main())
