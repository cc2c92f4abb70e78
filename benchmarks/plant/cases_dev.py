"""The development split: what rules, thresholds and calibration may be tuned on."""

from __future__ import annotations

from .twins import Case, Swap

__all__ = ["CASES"]

TILE = "128, 256, 64"
ONE_WIDE = "T.Parallel(rows, columns, coalesced_width=1)"
WEIGHTS = "scores[i, j] = T.exp2((scores"
STORE = Swap(
    "T.copy(C_local, C[by * rows, bx * columns])",
    "for i, j in T.Parallel(rows, columns): C[by * rows + i, bx * columns + j] = C_local[i, j]",
)
LOAD_X = "for i, j in T.Parallel(rows, N):\n            x["

_GEMM = (
    Case("gemm", "pipeline-too-shallow", {"M": 4096, "N": 4096, "K": 4096},
         (Swap("num_stages=4", "num_stages=2"),), why="Loads take longer than one turn."),
    Case("gemm", "missed-async-copy", {"M": 4096, "N": 2048, "K": 4096},
         (Swap("B_shared)\n", 'B_shared, prefer_instruction="sync")\n'),),
         static="copy B → B_shared: loads and stores"),
    Case("gemm", "small-grid", {"M": 1024, "N": 1024, "K": 8192},
         (Swap("128, 64, 64", TILE),), base=(Swap(TILE, "128, 64, 64"),), why="32 blocks."),
    Case("gemm", "tail-wave", {"M": 2304, "N": 1024, "K": 8192},
         (Swap("192, 128, 64", "128, 128, 64"), Swap("threads=384", "threads=256")),
         base=(Swap(TILE, "192, 128, 64"), Swap("threads=256", "threads=384")),
         why="144 tiles on 132 multiprocessors."),
    Case("gemm", "tensor-core-missed", {"M": 2048, "N": 2048, "K": 2048},
         (Swap("(columns, depth), T.bfloat16", "(columns, depth), T.float16"),),
         also=("missed-async-copy",), at=("T.gemm(",), static="gemm: fma"),
    Case("gemm", "wasted-lanes", {"M": 65536, "N": 128, "K": 4096},
         (Swap("128, 128, 64", TILE),), base=(Swap(TILE, "128, 128, 64"),),
         why="Half of each tile is outside of B."),
    Case("gemm", "excess-traffic", {"M": 4096, "N": 65536, "K": 4096},
         (Swap("T.use_swizzle(8)", "T.use_swizzle(1)"),),
         why="Each row of tiles reads all of B again, which the L2 does not hold."),
)  # fmt: skip

_ATTENTION = (
    Case("attention", "wgmma-serialized", {"heads": 64, "length": 4096, "dim": 64},
         (Swap("threads=256", "threads=128"),), also=("spill-hot",), at=("T.gemm(",),
         static="each wgmma waits for the one before it"),
    Case("attention", "slow-math", {"heads": 32, "length": 2048, "dim": 128},
         (Swap(WEIGHTS, "scores[i, j] = T.pow(2.0, (scores"),)),
    Case("attention", "layout-convert", {"heads": 32, "length": 4096, "dim": 128},
         (Swap("clear_accum=True", "clear_accum=True, policy=T.GemmWarpPolicy.FullCol"),),
         at=("T.copy(scores, weights)", "* correction[i]", "T.reduce_"),
         static="buffer weights: converted to"),
)  # fmt: skip

_ROWS = (
    Case("softmax", "narrow-access", {"M": 16384, "N": 4096},
         (Swap(LOAD_X, LOAD_X.replace("N)", "N, coalesced_width=1)")),), at=("Y[block",),
         static="load X: 2-byte accesses"),
    Case("softmax", "slow-math", {"M": 8192, "N": 4096},
         (Swap("- top[i]) *", "- top[i]) * T.float64(1.0) *"),), static="DMUL|DFMA"),
    Case("softmax", "occupancy-limited", {"M": 32768, "N": 4096},
         (Swap("rows = 1", "rows = 8"),), static="occupancy: 1 block of"),
    Case("row_sum", "missed-async-copy", {"M": 8192, "N": 8192},
         (Swap("tile)\n            T.copy(tile",
               'tile, prefer_instruction="sync")\n            T.copy(tile'),),
         also=("pipeline-too-shallow",), static="copy X → tile: loads and stores"),
    Case("column_sum", "epilogue-drain", {"M": 16384, "N": 8192},
         (Swap("8, 512, 32", "8, 512, 1"),), at=("T.atomic_add(",),
         why="Each 8 rows end in an atomic a column."),
)  # fmt: skip

_POINTS = (
    Case("elementwise", "uncoalesced-global", {"M": 8192, "N": 4096},
         (Swap("rows, columns = 8, 512", "rows, columns = 4096, 1"),),
         at=("X[by", "Y[by", "Z[by"), static="load X: 4-byte accesses, 32 sectors a request"),
    Case("rounds", "icache-unroll", {"N": 1 << 24}, (Swap("T.serial(64)", "T.unroll(64)"),),
         why="A body of more than 128 KB of code."),
    Case("rounds", "spill-hot", {"N": 1 << 23}, controls={"registers": 32},
         at=("x[i] = (", "y[i] = ("),
         static="bytes of registers are spilled"),
    Case("transpose_flat", "bank-conflict", {"M": 8192, "N": 8192},
         (Swap("columns + 1", "columns"),), at=("tile[",), static="8-way bank conflict"),
    Case("transpose", "uncoalesced-global", {"M": 8192, "N": 4096},
         (Swap("= tile[j, i]", "= X[by * rows + j, bx * columns + i]"),),
         static="sectors a request, 4 needed"),
    Case("table", "barrier-imbalance", {"N": 1 << 25}, (Swap("lanes = 256", "lanes = 32"),),
         at=("T.Parallel(lanes)", "T.Parallel(block)"),
         why="One warp computes the table, seven wait."),
    Case("gather", "narrow-access", {"V": 8192, "N": 4096, "M": 16384},
         (Swap("T.Parallel(rows, columns)", ONE_WIDE),), at=("Table[", "Out[row"),
         static="load Table: 2-byte accesses"),
)  # fmt: skip

_COMPOUND = (
    Case("softmax", "narrow-access", {"M": 16384, "N": 2048},
         (Swap(LOAD_X, LOAD_X.replace("N)", "N, coalesced_width=1)"), "narrow-access"),
          Swap("- top[i]) *", "- top[i]) * T.float64(1.0) *", "slow-math")), "compound"),
    Case("gemm", "pipeline-too-shallow", {"M": 1024, "N": 2048, "K": 8192},
         (Swap("num_stages=4", "num_stages=2", "pipeline-too-shallow"),
          Swap("128, 64, 64", TILE, "small-grid")), "compound",
         base=(Swap(TILE, "128, 64, 64"),)),
)  # fmt: skip

_DECOYS = (
    Case("gemm", "epilogue-drain", {"M": 4096, "N": 4096, "K": 16384}, (STORE,), "decoy",
         also=("uncoalesced-global", "narrow-access"),
         static="store C: 4-byte accesses", why="Stores of 4 bytes, once in 256 turns."),
    Case("attention", "slow-math", {"heads": 32, "length": 8192, "dim": 128},
         (Swap("correction[i] = T.exp2(", "correction[i] = T.pow(2.0, "),), "decoy",
         why="A power for each row of a tile, not for each element."),
    Case("norm", "slow-math", {"M": 16384, "N": 4096},
         (Swap("mean[i] / N", "T.cast(mean[i], T.float64) / N"),), "decoy", static="DFMA",
         why="Four square roots of float64 a block."),
    Case("row_sum", "occupancy-limited", {"M": 32768, "N": 8192},
         (Swap("rows, columns = 32, 128", "rows, columns = 128, 128"),), "decoy",
         static="occupancy: 1 block of", why="One block, with 192 KB under way."),
    Case("elementwise", "narrow-access", {"M": 16384, "N": 8192},
         (Swap("T.Parallel(rows, columns)", "T.Parallel(rows, columns, coalesced_width=2)"),),
         "decoy", static="load X: 8-byte accesses", why="Eight bytes keep up with memory."),
    Case("gated", "spill-hot", {"M": 4096, "N": 4096, "K": 8192}, (), "decoy",
         also=("spill-cold",), static="bytes of registers are spilled",
         why="It spills eight bytes in its epilogue."),
)  # fmt: skip

_CLEAN = (
    Case("gemm", "near-roof", {"M": 8192, "N": 8192, "K": 8192}, (), "clean"),
    Case("elementwise", "near-roof", {"M": 16384, "N": 4096}, (), "clean"),
    Case("transpose", "near-roof", {"M": 16384, "N": 8192}, (), "clean"),
)

CASES = (*_GEMM, *_ATTENTION, *_ROWS, *_POINTS, *_COMPOUND, *_DECOYS, *_CLEAN)
