"""The faults of `check_in_block.py`: changes of emitted CUDA texts, with what must be found."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Family = Literal[
    "cp.async pipeline",
    "TMA ring and wgmma",
    "barrier counts and phases",
    "epilogue and reuse",
    "reduction",
    "attention",
    "split K and dequantisation",
    "threads",
    "atomics",
    "all-reduce",
    "roles and branches",
    "ring slots off by one",
]
RACE, FENCE, EARLY = "shared-memory-race", "missing-fence", "early-accumulator"
DEADLOCK, FAULT = "deadlock", "gpu-fault"


@dataclass(frozen=True)
class Plant:
    """One change of one text."""

    what: str
    family: Family
    program: str
    """Name of the text, as `check_in_block.programs` gives it."""
    pattern: str
    """Regular expression for what is changed."""
    by: str = ""
    """Text that replaces it, with the pattern's groups as `re.sub` takes them."""
    number: int = 0
    """Position among the matches; -1 for the last one."""
    codes: tuple[str, ...] = (RACE,)
    """Codes of findings, of which one must come."""
    buffers: tuple[str, ...] = ()
    """Buffers of which one must be in such a finding; any for none."""

    def apply(self, text: str) -> str:
        """Return the changed text; ValueError where the pattern is not there."""
        found = list(re.finditer(self.pattern, text, re.MULTILINE))
        if not found:
            raise ValueError(f"{self.program}: nothing matches {self.pattern!r}")
        match = found[self.number]
        return text[: match.start()] + match.expand(self.by) + text[match.end() :]


PIPELINED = "ladder pipelined.tiled.0.sm_90a"
ROLES = "ladder warp roles.tiled.0.sm_90a"
WIDE = "ladder wide tile.tiled.0.sm_90a"
PERSISTENT = "ladder persistent.tiled.0.sm_90a"
PLAIN = "ladder shared memory.tiled.0.sm_90a"
TENSOR = "ladder tensor cores.tiled.0.sm_90a"
MMA = "matmul.matmul.0.sm_80"
STAGED = "matmul.matmul.0.sm_90a"
ATTENTION = "attention.attention.0.sm_90a"
ATTENTION_80 = "attention.attention.0.sm_80"
FLASH = "flash_attention.flash_attention.0.sm_90a"
BACKWARD = "attention_backward.attention_backward.2.sm_90a"
SCAN = "chunk_scan.chunk_scan.0.sm_90a"
SPLIT = "bench matmul_int4_split.matmul_int4_split.0.sm_90a"
NORM = "bench rms_norm.rms_norm.0.sm_90a"
SOFTMAX = "bench softmax.softmax.0.sm_90a"
TRANSPOSE = "bench transpose.transpose.0.sm_90a"

_BARRIER = r"^ *tp_barrier\(\);$"
_TILES = ("A_shared", "B_shared")
_RING_FULL = r"^ *tp_mbarrier_wait\(ring_full \+ ring_slot, ring_phase\);$"
_RING_EMPTY = r"^ *tp_mbarrier_wait\(ring_empty \+ ring_slot, ring_phase \^ 1\);$"
_STORE_READ = (
    r"^ *if \((?:tp_thread == 0|tp_warp == 0 && tp_elect\(\))\) tp_bulk_wait_read<0>\(\);$"
)
_ARRIVE = r"^ *if \(tp_lane == 0 && ring_previous >= 0\) tp_mbarrier_arrive\(.*$"

PLANTS: tuple[Plant, ...] = (
    # -- copies of threads that run ahead
    Plant("no wait for a group of cp.async", "cp.async pipeline", PIPELINED,
          r"^ *tp_cp_async_wait<2>\(\);$", buffers=_TILES),
    Plant("a wait leaves one group too many", "cp.async pipeline", PIPELINED,
          r"tp_cp_async_wait<2>", "tp_cp_async_wait<3>", buffers=_TILES),
    Plant("no commit in the loop", "cp.async pipeline", PIPELINED,
          r"^ *tp_cp_async_commit\(\);$", number=-1, buffers=_TILES),
    Plant("a slot is filled that is still read", "cp.async pipeline", PIPELINED,
          r"int free = \(k \+ 3\) & 3;", "int free = (k + 4) & 3;", buffers=_TILES),
    Plant("a slot too early is multiplied", "cp.async pipeline", PIPELINED,
          r"int slot = k & 3;", "int slot = (k + 1) & 3;", buffers=_TILES),
    Plant("no wait for the product before its operands are overwritten", "cp.async pipeline",
          PIPELINED, r"^ *tp_wgmma_wait<0>\(\);$", buffers=_TILES),
    Plant("no barrier between copies and product", "cp.async pipeline", PIPELINED, _BARRIER,
          number=-1, codes=(RACE, FENCE), buffers=_TILES),
    Plant("no fence between copies and product", "cp.async pipeline", PIPELINED,
          r"^ *tp_fence_async\(\);$", number=-1, codes=(FENCE,), buffers=_TILES),
    Plant("the wait comes after the barrier", "cp.async pipeline", MMA,
          r"(^ *tp_cp_async_wait<1>\(\);\n)((?:.*\n)*?)( *tp_barrier\(\);\n)", r"\2\3\1",
          buffers=_TILES),
    Plant("two slots where three are needed", "cp.async pipeline", MMA,
          r"int free = tp_floormod<int>\(k \+ 2, 3\);", "int free = tp_floormod<int>(k + 2, 2);",
          buffers=_TILES),
    Plant("no barrier in the loop", "cp.async pipeline", MMA, _BARRIER, buffers=_TILES),
    Plant("a wait leaves one group too many, mma", "cp.async pipeline", MMA,
          r"tp_cp_async_wait<1>", "tp_cp_async_wait<2>", buffers=_TILES),
    Plant("no barrier after ordinary copies", "cp.async pipeline", PLAIN, _BARRIER,
          number=-1, buffers=_TILES),
    Plant("no barrier before the next copies", "cp.async pipeline", PLAIN, _BARRIER,
          buffers=_TILES),
    # -- a producer's loads, products of warp groups
    Plant("consumers do not wait for a load", "TMA ring and wgmma", ROLES, _RING_FULL,
          buffers=_TILES),
    Plant("the producer does not wait for a free slot", "TMA ring and wgmma", ROLES, _RING_EMPTY,
          codes=(RACE, FAULT), buffers=_TILES),
    Plant("a slot is freed while its product runs", "TMA ring and wgmma", WIDE,
          r"ring_previous >= 0\) tp_mbarrier_arrive\(ring_empty \+ ring_previous\)",
          "ring_previous >= -1) tp_mbarrier_arrive(ring_empty + ring_slot)",
          codes=(RACE, FAULT), buffers=_TILES),
    Plant("no wait for the product before its slot is freed", "TMA ring and wgmma", ROLES,
          r"^ *tp_wgmma_wait<1>\(\);$", buffers=_TILES),
    Plant("a wait leaves one product too many", "TMA ring and wgmma", WIDE,
          r"tp_wgmma_wait<1>", "tp_wgmma_wait<2>", buffers=_TILES),
    Plant("accumulators are read before the last wait", "TMA ring and wgmma", ROLES,
          r"^ *tp_wgmma_wait<0>\(\);$", codes=(EARLY,)),
    Plant("no fence before a product", "TMA ring and wgmma", ROLES,
          r"^ *tp_wgmma_fence\(\);$", codes=(FAULT,)),
    Plant("a fence only before the first of two products", "TMA ring and wgmma", ATTENTION,
          r"^ *tp_wgmma_fence\(\);$", number=2, codes=(FAULT,)),
    Plant("no commit after a product", "TMA ring and wgmma", ROLES,
          r"^ *tp_wgmma_commit\(\);$", codes=(RACE, EARLY, FAULT)),
    Plant("initialised barriers are not fenced", "TMA ring and wgmma", PERSISTENT,
          r"^ *tp_fence_mbarrier_init\(\);$", codes=(FAULT,)),
    Plant("no barrier after barriers are initialised", "TMA ring and wgmma", PERSISTENT,
          _BARRIER, codes=(RACE, FAULT)),
    Plant("consumers read the slot before the one they waited for", "TMA ring and wgmma", ROLES,
          r"(tp_mbarrier_wait\(ring_full .*\n *)const int slot = ring_slot;",
          r"\1const int slot = (ring_slot + 1) & 3;", buffers=_TILES),
    Plant("operands of the next product before their barrier", "TMA ring and wgmma", TENSOR,
          _BARRIER, number=-1, buffers=_TILES),
    # -- counts and phases
    Plant("the load's bytes are counted too low", "barrier counts and phases", ROLES,
          r"tp_mbarrier_expect\(ring_full \+ ring_slot, 32768\)",
          "tp_mbarrier_expect(ring_full + ring_slot, 16384)", codes=(RACE, DEADLOCK, FAULT)),
    Plant("the load's bytes are counted too high", "barrier counts and phases", ROLES,
          r"tp_mbarrier_expect\(ring_full \+ ring_slot, 32768\)",
          "tp_mbarrier_expect(ring_full + ring_slot, 65536)", codes=(DEADLOCK,)),
    Plant("half of the arrivals free a slot", "barrier counts and phases", ROLES,
          r"tp_mbarrier_init\(ring_empty \+ s, 8\)", "tp_mbarrier_init(ring_empty + s, 4)",
          codes=(RACE, FAULT), buffers=(*_TILES, "")),
    Plant("more arrivals than warps", "barrier counts and phases", ROLES,
          r"tp_mbarrier_init\(ring_empty \+ s, 8\)", "tp_mbarrier_init(ring_empty + s, 9)",
          codes=(DEADLOCK,)),
    Plant("no arrival in the loop", "barrier counts and phases", PERSISTENT, _ARRIVE,
          codes=(DEADLOCK,)),
    Plant("consumers wait for the other phase", "barrier counts and phases", ROLES,
          r"tp_mbarrier_wait\(ring_full \+ ring_slot, ring_phase\)",
          "tp_mbarrier_wait(ring_full + ring_slot, ring_phase ^ 1)",
          codes=(RACE, DEADLOCK), buffers=(*_TILES, "")),
    Plant("the producer waits for the other phase", "barrier counts and phases", ROLES,
          r"tp_mbarrier_wait\(ring_empty \+ ring_slot, ring_phase \^ 1\)",
          "tp_mbarrier_wait(ring_empty + ring_slot, ring_phase)", codes=(DEADLOCK,)),
    Plant("the consumers' phase does not turn", "barrier counts and phases", WIDE,
          r"ring_slot == 4\) \{ ring_slot = 0; ring_phase \^= 1; \}",
          "ring_slot == 4) { ring_slot = 0; }", number=-1, codes=(RACE, DEADLOCK)),
    Plant("the producer goes around one slot early", "barrier counts and phases", ROLES,
          r"\+\+ring_slot == 4", "++ring_slot == 3", codes=(RACE, DEADLOCK)),
    Plant("one load less than products", "barrier counts and phases", ROLES,
          r"for \(int k = 0; k < 8; \+\+k\)", "for (int k = 0; k < 7; ++k)", codes=(DEADLOCK,)),
    Plant("a load counts at the barrier of slot 0", "barrier counts and phases", ROLES,
          r"&map1, ring_full \+ ring_slot,", "&map1, ring_full,", codes=(RACE, DEADLOCK, FAULT)),
    Plant("a barrier of some warps counts another warp group", "barrier counts and phases", ROLES,
          r"tp_barrier\(1, 256\);", "tp_barrier(1, 384);", codes=(DEADLOCK, FAULT)),
    # -- shared memory that is used again
    Plant("no fence before a TMA store", "epilogue and reuse", ROLES,
          r"^ *tp_fence_async\(\);$", number=-1, codes=(FENCE,), buffers=("C_staged",)),
    Plant("no barrier before a TMA store", "epilogue and reuse", WIDE,
          r"^ *tp_barrier\(1, 256\);$", number=-1, codes=(RACE, FENCE), buffers=("C_staged",)),
    Plant("results are staged over operands in use", "epilogue and reuse", WIDE,
          r"^ *tp_barrier\(1, 256\);$", buffers=("C_staged", *_TILES)),
    Plant("a persistent block stages over a store that reads", "epilogue and reuse", PERSISTENT,
          _STORE_READ, number=-1,
          codes=(RACE, FAULT), buffers=("C_staged", *_TILES, "")),
    Plant("staged over tiles that other warps read", "epilogue and reuse", STAGED,
          _BARRIER, number=1, buffers=("C_staged", *_TILES)),
    Plant("a fence after the barrier, by other threads", "epilogue and reuse", STAGED,
          r"( *tp_fence_async\(\);\n)( *tp_barrier\(\);\n)( *if \(tp_thread == 0\) \{)",
          r"\2 if (tp_thread != 0) \1\3", codes=(FENCE,), buffers=("C_staged",)),
    Plant("the wait for a store comes after the barrier", "epilogue and reuse", SCAN,
          rf"({_STORE_READ[1:-1]}\n)( *tp_barrier\(1, 256\);\n)",
          r"\2\1", buffers=("Y_staged",)),
    Plant("no wait for a store in the loop", "epilogue and reuse", SCAN,
          _STORE_READ, buffers=("Y_staged",)),
    Plant("a tile is read before all of it is written", "epilogue and reuse", TRANSPOSE,
          _BARRIER),
    # -- sums of a block
    Plant("partial sums are read too early", "reduction", NORM, _BARRIER, number=-1),
    Plant("sums are read too early", "reduction", SOFTMAX, _BARRIER, number=-1),
    Plant("maxima are read too early", "reduction", SOFTMAX, _BARRIER),
    Plant("sums are stored over maxima that are read", "reduction", SOFTMAX, _BARRIER, number=1),
    # -- attention
    Plant("keys are multiplied before they are there", "attention", ATTENTION,
          r"^ *tp_mbarrier_wait\(ring_full_1 \+ ring_slot_1, ring_phase_1\);$", number=-1,
          buffers=("K_shared",)),
    Plant("values are multiplied before they are there", "attention", ATTENTION,
          r"^ *tp_mbarrier_wait\(ring_full_2 \+ ring_slot_2, ring_phase_2\);$",
          buffers=("V_shared",)),
    Plant("scores are read while their product runs", "attention", ATTENTION,
          r"tp_wgmma_wait<1>", "tp_wgmma_wait<2>", codes=(EARLY,)),
    Plant("keys are overwritten while they are read", "attention", ATTENTION,
          r"^ *tp_mbarrier_wait\(ring_empty_1 \+ ring_slot_1, ring_phase_1 \^ 1\);$", number=1,
          codes=(RACE, FAULT), buffers=("K_shared",)),
    Plant("a slot that threads read is freed without a fence", "attention", FLASH,
          r"^ *tp_fence_async\(\);$", codes=(FENCE,), buffers=("V_shared",)),
    Plant("lane 0 frees a slot for lanes that still read", "attention", FLASH,
          r"(^ *tp_fence_async\(\);\n) *tp_warp_barrier\(\);\n", r"\1",
          codes=(RACE, FENCE), buffers=("V_shared",)),
    Plant("no barrier in the loop over keys, sm_80", "attention", ATTENTION_80, _BARRIER,
          buffers=("K_shared", "V_shared")),
    Plant("no wait for keys, sm_80", "attention", ATTENTION_80,
          r"^ *tp_cp_async_wait<0>\(\);$", buffers=("K_shared", "V_shared")),
    Plant("probabilities are multiplied before all are stored", "attention", BACKWARD,
          r"^ *tp_barrier\(1, 256\);$", number=1),
    Plant("sums are staged over a store that reads", "attention", BACKWARD,
          _STORE_READ, buffers=("dQ_sums_staged",)),
    # -- part of K in each block, and weights of 4 bits
    Plant("packed weights are read before they are there", "split K and dequantisation", SPLIT,
          r"^ *tp_mbarrier_wait\(ring_full_1 \+ ring_slot_1, ring_phase_1\);$",
          buffers=("packed",)),
    Plant("registers of a product are overwritten early", "split K and dequantisation", SPLIT,
          r"^ *tp_wgmma_fence\(\);$", number=1, codes=(FAULT,)),
    Plant("a slot of packed weights is freed without a fence", "split K and dequantisation", SPLIT,
          r"^ *tp_fence_async\(\);$", codes=(FENCE,), buffers=("packed",)),
    Plant("the sums are read before the last wait", "split K and dequantisation", SPLIT,
          r"^ *tp_wgmma_wait<0>\(\);$", codes=(EARLY,)),
)  # fmt: skip
