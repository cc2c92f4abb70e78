"""Samples of program counters by Nsight Compute, of one launch of a kernel.

    python benchmarks/sampling_ncu.py KERNEL    (what Nsight Compute runs)

In: the name of a kernel of `instrument.py`.  Out: shares of stall reasons and of instructions. Its
table has no column for waits of warp groups (`warpgroup_arrive`): what the columns do not add up to
is theirs.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

REASONS = {
    "stall_barrier": "barrier", "stall_branch_resolving": "branch_resolving",
    "stall_dispatch": "dispatch_stall", "stall_drain": "drain", "stall_imc": "imc_miss",
    "stall_lg": "lg_throttle", "stall_long_sb": "long_scoreboard",
    "stall_math": "math_pipe_throttle", "stall_membar": "membar", "stall_mio": "mio_throttle",
    "stall_misc": "misc", "stall_no_inst": "no_instructions",
    "stall_not_selected": "not_selected", "stall_selected": "selected",
    "stall_short_sb": "short_scoreboard", "stall_sleep": "sleeping", "stall_tex": "tex_throttle",
    "stall_wait": "wait",
}  # fmt: skip
"""Their columns, and the device's own names of the reasons."""
UNLISTED = "warpgroup_arrive"
INSTRUCTION = 16
"""Bytes."""


@dataclass(frozen=True)
class NcuSamples:
    """Of one launch."""

    samples: int
    stalls: dict[str, float]
    """Share by reason."""
    places: dict[int, float]
    """Share by offset of the instruction."""

    def of(self, offset: int) -> float:
        """Share of an instruction."""
        return self.places.get(offset, 0.0)


def sampled(name: str, function: str) -> NcuSamples | str:
    """Samples of the third launch of a kernel, or why there are none."""
    ncu = shutil.which("ncu")
    if ncu is None:
        return "there is no ncu"
    command = [
        ncu, "--clock-control", "none", "--section", "SourceCounters", "--print-source", "sass",
        "-k", f"regex:^{function}$", "--launch-skip", "2", "--launch-count", "1",
        "--page", "source", "--csv", sys.executable, __file__, name,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    rows = list(csv.reader(done.stdout.splitlines()))
    heads = [at for at, row in enumerate(rows) if row and row[0] == "Address"]
    if not heads:
        return f"ncu gave no table: {(done.stdout + done.stderr)[-300:]}"
    head = rows[heads[0]]
    body = [row for row in rows[heads[0] + 1 :] if len(row) == len(head)]
    return parsed(head, body)


def parsed(head: list[str], body: list[list[str]]) -> NcuSamples:
    """Its table: a row for each instruction, in order."""
    samples = [int(row[head.index("# Samples")] or 0) for row in body]
    total = sum(samples)
    stalls: Counter[str] = Counter()
    for column, reason in REASONS.items():
        if column in head:
            stalls[reason] = sum(int(row[head.index(column)] or 0) for row in body)
    stalls[UNLISTED] = total - stalls.total()
    return NcuSamples(
        total,
        {reason: n / total for reason, n in stalls.items() if n},
        {INSTRUCTION * at: n / total for at, n in enumerate(samples) if n},
    )


def main() -> None:
    """Launch the kernel."""
    import instrument
    import torch

    run = instrument.KERNELS[sys.argv[1]]()
    for _ in range(4):
        run()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
