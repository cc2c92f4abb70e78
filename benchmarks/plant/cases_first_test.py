"""The first test split: drawn by somebody who did not know the rules, frozen, and run once.

Its result is in `benchmarks/results/plant-first-test.json`; since then rules are tuned on it too.
"""

from __future__ import annotations

from .cases_dev import TILE, WEIGHTS
from .twins import Case, Swap

__all__ = ["CASES"]

_SQUARE = "rows, columns, depth = 128, 128, 64"
_STORED = "C[by * rows + i, bx * columns + j]"

_GEMM = (
    Case("batched", "missed-async-copy", {"batch": 12, "M": 2304, "N": 1792, "K": 1536},
         (Swap("B_shared)\n", 'B_shared, prefer_instruction="sync")\n'),),
         static="copy B → B_shared: loads and stores"),
    Case("batched", "tail-wave", {"batch": 3, "M": 512, "N": 2688, "K": 10240},
         (Swap(_SQUARE, "rows, columns, depth = 128, 192, 64"),),
         why="168 tiles on 132 multiprocessors; of the narrow ones there are 252."),
    Case("gated", "small-grid", {"M": 1280, "N": 768, "K": 36864},
         (Swap("128, 64, 64", TILE),), base=(Swap(TILE, "128, 64, 64"),), why="30 blocks."),
    Case("gated", "wgmma-serialized", {"M": 3328, "N": 4800, "K": 3584},
         (Swap("threads=256", "threads=128"),), base=(Swap(TILE, "128, 240, 64"),),
         also=("spill-hot",), at=("T.gemm(",),
         static="each wgmma waits for the one before it"),
    Case("gated", "epilogue-drain", {"M": 18432, "N": 7168, "K": 320},
         (Swap("T.copy(sums, C[by * rows, bx * columns])",
               f"for i, j in T.Parallel(rows, columns): {_STORED} = sums[i, j]"),),
         also=("uncoalesced-global", "narrow-access"), static="store C: 4-byte accesses"),
    Case("gate_pair", "pipeline-too-shallow", {"M": 5120, "N": 3328, "K": 4608},
         (Swap("num_stages=3", "num_stages=2"),), why="Loads take longer than one turn."),
    Case("gate_pair", "wasted-lanes", {"M": 98304, "N": 64, "K": 3072},
         (Swap("128, 64, 64", "128, 128, 64"),), base=(Swap("128, 128, 64", "128, 64, 64"),),
         why="Half of each tile is outside of B and G."),
    Case("two_products", "tensor-core-missed", {"M": 2560, "N": 2304, "K": 2560},
         (Swap("E_shared = T.alloc_shared((columns, depth), T.bfloat16)",
               "E_shared = T.alloc_shared((columns, depth), T.float16)"),),
         also=("missed-async-copy",), at=("T.gemm(D_shared",), static="gemm: fma"),
    Case("two_products", "layout-convert", {"M": 5120, "N": 3072, "K": 3584},
         (Swap("T.gemm(D_shared, E_shared, sums, transpose_B=True)",
               "T.gemm(D_shared, E_shared, sums, transpose_B=True, "
               "policy=T.GemmWarpPolicy.FullCol)"),),
         static="buffer sums: converted to"),
)  # fmt: skip

_ATTENTION = (
    Case("attention", "missed-async-copy", {"heads": 20, "length": 3584, "dim": 128},
         (Swap("V_shared)\n", 'V_shared, prefer_instruction="sync")\n'),),
         static="copy V → V_shared: loads and stores"),
    Case("attention", "small-grid", {"heads": 1, "length": 16896, "dim": 64},
         (Swap("= 128, 128, dim", "= 192, 128, dim"), Swap("threads=256", "threads=384")),
         why="88 blocks."),
    Case("attention", "pipeline-too-shallow", {"heads": 12, "length": 5120, "dim": 128},
         (Swap("num_stages=2", "num_stages=1"),), also=("missed-async-copy",),
         static="loop k: two stages: shared memory has room for them"),
)  # fmt: skip

_ROWS = (
    Case("softmax", "spill-hot", {"M": 15360, "N": 9216}, (Swap("rows = 1", "rows = 8"),),
         also=("occupancy-limited",), at=("x[i, j]", "e[i, j]", "T.reduce_"),
         static="bytes of registers are spilled"),
    Case("cross_entropy", "barrier-imbalance", {"M": 49152, "N": 2304},
         (Swap("rows, lanes = 8, 128", "rows, lanes = 8, 4"),),
         at=("T.Parallel(rows, lanes)", "T.reduce_", "tile[i, j * lanes"),
         why="One warp goes along the rows, seven wait."),
    Case("layer_norm", "barrier-imbalance", {"M": 49152, "N": 1280},
         (Swap("rows, lanes = 16, 16", "rows, lanes = 16, 1"),),
         at=("T.Parallel(rows, lanes)", "T.reduce_sum("),
         why="Sixteen lanes add up the rows, the others wait."),
    Case("balance", "slow-math", {"M": 3072, "N": 5120},
         (Swap("* 0.002", "* T.float64(0.002)"),), static="DMUL|DFMA"),
    Case("balance", "icache-unroll", {"M": 4096, "N": 14336},
         (Swap("T.serial(64)", "T.unroll(64)"),), why="A body of more than 128 KB of code."),
)  # fmt: skip

_REDUCTIONS = (
    Case("row_top", "bank-conflict", {"M": 81920, "N": 1600},
         (Swap("columns + 1", "columns + 16"),), at=("tile[",),
         static="16-way bank conflict"),
    Case("row_top", "occupancy-limited", {"M": 98304, "N": 1536},
         (Swap("rows, columns = 128, 64", "rows, columns = 128, 256"),),
         static="occupancy: 1 block of"),
    Case("column_sum", "uncoalesced-global", {"M": 24576, "N": 5120},
         (Swap("8, 512, 32", "2048, 2, 3"),), also=("excess-traffic", "narrow-access"),
         at=("T.copy(X[",), static="load X: 8-byte accesses, 32 sectors"),
)  # fmt: skip

_POINTS = (
    Case("rotary", "narrow-access", {"heads": 28, "tokens": 73728, "dim": 128, "half": 64},
         (Swap("T.Parallel(rows, half)", "T.Parallel(rows, half, coalesced_width=1)"),),
         at=("x = T.cast(X", "y = T.cast(X", "Y[head"), static="load X: 2-byte accesses"),
    Case("rotary", "excess-traffic", {"heads": 12, "tokens": 196608, "dim": 128, "half": 64},
         (Swap("T.Kernel(heads, T.ceildiv(tokens, rows), threads=256) as (head, block)",
               "T.Kernel(T.ceildiv(tokens, rows), heads, threads=256) as (block, head)"),),
         at=("Cos[token", "Sin[token"),
         why="Each head reads 100 MB of angles again, which the L2 does not hold."),
    Case("rounds", "tail-wave", {"N": 164 * 16384}, (Swap("block = 4096", "block = 16384"),),
         also=("occupancy-limited",), why="164 blocks on 132 multiprocessors, one on each."),
    Case("gather", "excess-traffic", {"V": 10240, "N": 14336, "M": 40960},
         (Swap("T.Kernel(T.ceildiv(M, rows), T.ceildiv(N, columns), threads=256) as (by, bx)",
               "T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by)"),),
         base=(
             Swap("T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by)",
                  "T.Kernel(T.ceildiv(M, rows), T.ceildiv(N, columns), threads=256) as (by, bx)"),
         ),
         at=("Table[",),
         why="Rows that are read again are of 294 MB; a strip of columns is of 10 MB."),
    Case("table", "slow-math", {"N": 60_000_000},
         (Swap("(512.0 * (n + 1))", "(T.float64(512.0) * (n + 1))"),),
         base=(Swap("= 8192, 512, 24", "= 4096, 512, 24"),), static="DMUL|DFMA"),
    Case("table", "occupancy-limited", {"N": 72_000_000},
         (Swap("T.alloc_shared((entries,)", "T.alloc_shared((entries * 64,)"),),
         static="occupancy: 1 block of"),
    Case("transpose_flat", "uncoalesced-global", {"M": 10240, "N": 7168},
         (Swap("rows, columns = 64, 64", "rows, columns = 2048, 2"),),
         also=("excess-traffic",), at=("= X[",), static="32 sectors a request, 8 needed"),
)  # fmt: skip

_COMPOUND = (
    Case("row_top", "bank-conflict", {"M": 114688, "N": 768},
         (Swap("columns + 1", "columns", "bank-conflict"),
          Swap("rows, columns = 128, 64", "rows, columns = 128, 256", "occupancy-limited")),
         "compound", at=("tile[", "T.Kernel(")),
    Case("attention", "pipeline-too-shallow", {"heads": 28, "length": 2560, "dim": 128},
         (Swap("num_stages=2", "num_stages=1", "pipeline-too-shallow"),
          Swap(WEIGHTS, "scores[i, j] = T.pow(2.0, (scores", "slow-math")),
         "compound", also=("missed-async-copy",)),
    Case("batched", "missed-async-copy", {"batch": 32, "M": 1152, "N": 1408, "K": 320},
         (Swap("B_shared)\n", 'B_shared, prefer_instruction="sync")\n', "missed-async-copy"),
          Swap("T.copy(sums, C[bz, by * rows : (by + 1) * rows, "
               "bx * columns : (bx + 1) * columns])",
               f"for i, j in T.Parallel(rows, columns): {_STORED.replace('[', '[bz, ', 1)} = "
               "sums[i, j]", "epilogue-drain")),
         "compound", also=("uncoalesced-global", "narrow-access")),
)  # fmt: skip

_DECOYS = (
    Case("attention", "missed-async-copy", {"heads": 6, "length": 20480, "dim": 128},
         (Swap("Q_shared)\n", 'Q_shared, prefer_instruction="sync")\n'),), "decoy",
         static="copy Q → Q_shared: loads and stores", why="Once a block, before 160 turns."),
    Case("cross_entropy", "slow-math", {"M": 131072, "N": 896},
         (Swap("T.log(total[i])", "T.log(T.cast(total[i], T.float64))"),), "decoy",
         static="DMUL|DFMA", why="A logarithm of float64 a row."),
    Case("gather", "narrow-access", {"V": 12288, "N": 5120, "M": 49152},
         (Swap("T.Parallel(rows, columns)", "T.Parallel(rows, columns, coalesced_width=4)"),),
         "decoy", static="load Table: 8-byte accesses", why="Eight bytes keep up with memory."),
    Case("transpose_flat", "bank-conflict", {"M": 12288, "N": 5632},
         (Swap("columns + 1", "columns + 16"),), "decoy", static="8-way bank conflict",
         why="Shared memory keeps up with device memory."),
    Case("rounds", "occupancy-limited", {"N": 132 * 6 * 16384},
         (Swap("block = 4096", "block = 16384"),), "decoy", static="occupancy: 1 block of",
         why="Each thread has 64 chains of arithmetic: two warps a scheduler keep it busy."),
    Case("gated", "spill-hot", {"M": 5120, "N": 6144, "K": 12288}, (), "decoy",
         also=("spill-cold",), static="bytes of registers are spilled",
         why="It spills eight bytes in its epilogue."),
)  # fmt: skip

_CLEAN = (
    Case("gemm", "near-roof", {"M": 6144, "N": 10240, "K": 7168}, (), "clean"),
    Case("norm", "near-roof", {"M": 40960, "N": 3072}, (), "clean"),
    Case("row_sum", "near-roof", {"M": 25344, "N": 12288}, (), "clean"),
)

CASES = (
    *_GEMM, *_ATTENTION, *_ROWS, *_REDUCTIONS, *_POINTS, *_COMPOUND, *_DECOYS, *_CLEAN,
)  # fmt: skip
