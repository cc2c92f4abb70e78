"""How fast records become times: `python benchmarks/decoding.py`.

Each row is the median of some runs over the same records, in million records a second of processor
time:

- GPU, one sequence: all warps made the same marks, as those of a GEMM do;
- GPU, many lengths: each warp's loop has its own number of turns, as with causal attention;
- GPU, short: warps that made 12 marks each, where the work by slot shows;
- CPU, one sequence and many lengths: begins and ends, of the threads' buffers.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.instrument import decode_records
from tileprof.instrument.decode.warp_times import decode_slots
from tileprof.instrument.records import Records, make_records
from tileprof.instrument.slots import RECORD, SLOT, Slots

_Work = tuple[int, Callable[[], object]]

SITES = [
    ir.Site(0, "consumer", "stage"),
    ir.Site(1, "prologue", "stage", None, 0),
    ir.Site(2, "loop k", "stage", None, 0),
    ir.Site(3, "wait for As, Bs", "op", None, 2),
    ir.Site(4, "gemm", "op", None, 2),
    ir.Site(5, "wait for gemm", "op", None, 2),
    ir.Site(6, "epilogue", "stage", None, 0),
    ir.Site(7, "write C", "op", None, 6),
]
STATES = [
    ir.State(-1), ir.State(1), ir.State(3, 1), ir.State(4, 2), ir.State(5, 2), ir.State(3, 2),
    ir.State(7, 1),
]  # fmt: skip


def warp_slots(turns: NDArray[np.int64], seed: int = 0) -> Slots:
    """Slots of warps whose loop of three steps has so many turns."""
    draw = np.random.default_rng(seed)
    loop = [np.tile([5, 3, 4], n) for n in turns.tolist()]
    for each in loop:
        each[:1] = 2
    states = [np.concatenate([[0, 1], each, [6]]) for each in loop]
    kept = np.array([len(each) for each in states])
    steps = draw.integers(40, 900, kept.sum())
    clock, ends = np.cumsum(steps), np.cumsum(kept)
    heads, records = np.zeros(len(turns), SLOT), np.empty(len(steps), RECORD)
    records["clock"], records["state"] = clock, np.concatenate(states)
    heads["kept"] = heads["wanted"] = kept
    heads["begin_clock"], heads["end_clock"] = clock[ends - kept] - 30, clock[ends - 1] + 500
    for name in ("begin", "end"):
        heads[f"{name}_ns"] = heads[f"{name}_clock"] // 64 * 32
    heads["block"], heads["warp"] = np.divmod(np.arange(len(turns)), 8)
    return Slots(heads, records)


def warps(turns: NDArray[np.int64]) -> _Work:
    """Decoding of such slots."""
    slots = warp_slots(turns)
    return len(slots.records), lambda: decode_slots(slots, SITES, STATES, record_cycles=9.0)


def threads(turns: NDArray[np.int64], seed: int = 0) -> _Work:
    """Decoding of a buffer of a CPU's worker, one block for each number of turns."""
    tags = [[0, *[2, 3, 4, 5] * n, 1] for n in turns.tolist()]
    lengths = [len(each) for each in tags]
    clock = np.cumsum(np.random.default_rng(seed).integers(40, 900, sum(lengths)))
    block = np.repeat(np.arange(len(turns)), lengths)
    records: Records = make_records(clock, block, np.concatenate(tags))
    return len(records), lambda: decode_records([records])


def rate(work: _Work, runs: int) -> float:
    """Million records a second."""
    count, decode = work
    decode()
    took = []
    for _ in range(runs):
        begin = time.process_time()
        decode()
        took.append(time.process_time() - begin)
    return count / statistics.median(took) / 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    draw = np.random.default_rng(1)
    same = np.full(given.records // 770, 256)
    varied = draw.integers(1, 512, given.records // 770)
    rows: dict[str, Callable[[], _Work]] = {
        "GPU, one sequence": lambda: warps(same),
        "GPU, many lengths": lambda: warps(varied),
        "GPU, short": lambda: warps(np.full(given.records // 12, 3)),
        "CPU, one sequence": lambda: threads(same * 3 // 4),
        "CPU, many lengths": lambda: threads(varied * 3 // 4),
    }
    for name, make in rows.items():
        print(f"{name:20} {rate(make(), given.runs):8.1f} M records/s")


if __name__ == "__main__":
    main()
