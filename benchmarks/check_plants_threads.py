"""More faults of `check_in_block.py`: in kernels of threads, in branches, and in slots of rings."""

from __future__ import annotations

from benchmarks.check_plants import DEADLOCK, FAULT, NORM, PERSISTENT, RACE, ROLES, SOFTMAX, Plant

ROWS = "threads rows_of_threads.rows_of_threads.0.sm_90a"
NEIGHBOURS = "threads neighbours_of_threads.neighbours_of_threads.0.sm_90a"
COUNTED = "threads counted_by_threads.counted_by_threads.0.sm_90a"
HALVES = "threads roles_of_threads.roles_of_threads.0.sm_90a"

_BARRIER = r"^ *tp_barrier\(\);$"
_COUNT = r"tp_atomic<TpAdd>\(\(\(int32_t \*\)\(held \+ at \* 4\)\), \(int32_t\)\(1\)\);"
_PLACE = "*((int32_t *)(held + at * 4))"
_TILES = ("A_shared", "B_shared")

THREAD_PLANTS: tuple[Plant, ...] = (
    # -- threads that hand data over
    Plant("no barrier between rounds of neighbours", "threads", NEIGHBOURS, _BARRIER,
          buffers=("rows",)),
    Plant("a neighbour's last element is read without a barrier", "threads", NEIGHBOURS,
          r"^  tp_barrier\(\);\n(  const int tx_at_1 .*\n  \{\n    B\[.*rows \+ \()tx_at_1 \+ 128",
          r"\1((tx_at_1 + 32) & 127) + 128", buffers=("rows",)),
    Plant("neighbours are averaged in place", "threads", NEIGHBOURS,
          r"int v1 = \(k \+ 1\) & 1;", "int v1 = k & 1;", buffers=("rows",)),
    Plant("a barrier only in every second round", "threads", NEIGHBOURS, _BARRIER,
          "if ((k & 1) == 0) tp_barrier();", buffers=("rows",)),
    Plant("warps meet, the block does not", "threads", NEIGHBOURS, _BARRIER, "tp_warp_barrier();",
          buffers=("rows",)),
    Plant("no barrier after counts are cleared", "threads", COUNTED, _BARRIER, buffers=("held",)),
    Plant("counts are read while threads still count", "threads", COUNTED, _BARRIER, number=-1,
          buffers=("held",)),
    # -- atomics and plain accesses
    Plant("counts are raised by plain writes", "atomics", COUNTED, _COUNT,
          f"{_PLACE} = {_PLACE} + 1;", buffers=("held",)),
    Plant("one warp counts by plain writes", "atomics", COUNTED, _COUNT,
          rf"{{ if (tp_warp == 3) {_PLACE} = {_PLACE} + 1; else \g<0> }}", buffers=("held",)),
    Plant("a count is cleared while others count", "atomics", COUNTED,
          r"^ *const int32_t at = X_in\[0\];$",
          r"\g<0> if (tp_thread == 5) *((int32_t *)(held + 0)) = 0;", buffers=("held",)),
    # -- sums over threads
    Plant("parts of warps are read before they are there", "all-reduce", ROWS, _BARRIER),
    Plant("two lanes store the part of a row", "all-reduce", ROWS,
          r"\(tp_lane & 28\) == 0", "(tp_lane & 12) == 0"),
    Plant("parts of all warps go to one place", "all-reduce", ROWS,
          r"parts\[tp_warp \* 4 \+", "parts[(tp_warp & 3) * 4 +"),
    Plant("only warps of the first half wait for parts", "all-reduce", ROWS, _BARRIER,
          "if (tp_warp < 4) tp_barrier();", codes=(RACE, DEADLOCK)),
    Plant("half of a warp exchanges parts", "all-reduce", ROWS,
          r"^( *)(fragment_1_part\[0\] = .*tp_shuffle_xor\(fragment_1_part\[0\], 16\);)$",
          r"\1if (tp_lane < 16) \2", codes=(DEADLOCK, FAULT)),
    # -- roles and branches
    Plant("a role reads before the other has filled", "roles and branches", HALVES, _BARRIER,
          number=-1, buffers=("tile",)),
    Plant("a role fills what the other still reads", "roles and branches", HALVES, _BARRIER,
          buffers=("tile",)),
    Plant("a barrier inside the branch of a role", "roles and branches", HALVES, _BARRIER,
          "if (tp_warp < 2) tp_barrier();", number=-1, codes=(RACE, DEADLOCK)),
    Plant("one role goes around once more", "roles and branches", HALVES,
          r"k < 4; \+\+k", "k < 4 + (tp_warp < 2); ++k", codes=(RACE, DEADLOCK, FAULT)),
    Plant("a barrier in a branch of lanes", "roles and branches", NEIGHBOURS, _BARRIER,
          "if (tp_lane < 16) tp_barrier();", codes=(RACE, DEADLOCK, FAULT)),
    Plant("a barrier in a branch of warps, sums", "roles and branches", SOFTMAX, _BARRIER,
          "if (tp_warp != 1) tp_barrier();", codes=(RACE, DEADLOCK)),
    Plant("a barrier of fewer threads than meet", "roles and branches", NORM, _BARRIER,
          "tp_barrier(0, 64);", codes=(RACE, DEADLOCK, FAULT)),
    Plant("some consumers miss the barrier before results are staged", "roles and branches", ROLES,
          r"^ *tp_barrier\(1, 256\);$", "if (tp_warp != 7) tp_barrier(1, 256);",
          codes=(RACE, DEADLOCK)),
    # -- slots of rings
    Plant("one operand is loaded to the slot before", "ring slots off by one", ROLES,
          r"tp_tma_load\(B_shared \+ slot \* 16384, ",
          "tp_tma_load(B_shared + ((slot + 3) & 3) * 16384, ", buffers=_TILES),
    Plant("one operand is multiplied from the next slot", "ring slots off by one", ROLES,
          r"tp_descriptor\(B_shared \+ slot \* 16384",
          "tp_descriptor(B_shared + ((slot + 1) & 3) * 16384", buffers=_TILES),
    Plant("the producer waits one round late for a free slot", "ring slots off by one", ROLES,
          r"tp_mbarrier_wait\(ring_empty \+ ring_slot, ring_phase \^ 1\);",
          r"if (k >= 5) \g<0>", codes=(RACE, FAULT), buffers=_TILES),
    Plant("consumers have a slot more than the ring", "ring slots off by one", PERSISTENT,
          r"\+\+ring_slot == 4", "++ring_slot == 5", number=-1, codes=(RACE, DEADLOCK, FAULT)),
    Plant("the slot after the one before is freed", "ring slots off by one", PERSISTENT,
          r"tp_mbarrier_arrive\(ring_empty \+ ring_previous\)",
          "tp_mbarrier_arrive(ring_empty + ((ring_previous + 1) & 3))",
          codes=(RACE, DEADLOCK, FAULT), buffers=(*_TILES, "")),
)  # fmt: skip
