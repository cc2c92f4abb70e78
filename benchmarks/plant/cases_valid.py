"""The validation split: looked at once rules fit the development split, then tuned on too."""

from __future__ import annotations

from .cases_dev import LOAD_X
from .twins import Case, Swap

__all__ = ["CASES"]

_SHAPE = "rows, columns, width = 128, 128, dim"

_ATTENTION = (
    Case("attention", "wasted-lanes", {"heads": 48, "length": 2048, "dim": 64},
         (Swap(_SHAPE, "rows, columns, width = 128, 128, 128"),),
         why="Half of each product is zeros."),
    Case("attention", "tail-wave", {"heads": 1, "length": 17280, "dim": 64},
         (Swap("192, 128, dim", "128, 128, dim"), Swap("threads=384", "threads=256")),
         base=(Swap(_SHAPE, "rows, columns, width = 192, 128, dim"),
               Swap("threads=256", "threads=384")),
         why="135 blocks on 132 multiprocessors."),
    Case("attention", "tensor-core-missed", {"heads": 16, "length": 1024, "dim": 128},
         (Swap("weights = T.alloc_fragment((rows, columns), T.bfloat16)",
               "weights = T.alloc_fragment((rows, columns), T.float16)"),),
         also=("layout-convert",), at=("T.gemm(weights",), static="gemm: fma"),
)  # fmt: skip

_GEMM = (
    Case("gemm", "epilogue-drain", {"M": 8192, "N": 8192, "K": 256},
         (Swap("T.copy(C_local, C[by * rows, bx * columns])",
               "for i, j in T.Parallel(rows, columns): "
               "C[by * rows + i, bx * columns + j] = C_local[i, j]"),),
         also=("uncoalesced-global", "narrow-access"), static="store C: 4-byte accesses"),
    Case("gated", "slow-math", {"M": 8192, "N": 4096, "K": 512},
         (Swap("T.exp2(sums[i, j] * ", "T.exp2(sums[i, j] * T.float64(1.0) * "),),
         also=("spill-hot",), static="DMUL|DFMA"),
    Case("gate_pair", "wgmma-serialized", {"M": 4096, "N": 4096, "K": 4096},
         (Swap("threads=256", "threads=128"),), also=("spill-hot",), at=("T.gemm(",),
         static="each wgmma waits for the one before it"),
    Case("gated", "pipeline-too-shallow", {"M": 2048, "N": 8192, "K": 5120},
         (Swap("num_stages=4", "num_stages=2"),), why="Loads take longer than one turn."),
)  # fmt: skip

_ROWS = (
    Case("norm", "occupancy-limited", {"M": 32768, "N": 4096}, (Swap("rows = 2", "rows = 16"),),
         base=(Swap("rows = 4", "rows = 2"),), static="occupancy: 1 block of"),
    Case("row_sum", "small-grid", {"M": 1024, "N": 65536},
         (Swap("rows, columns = 8, 512", "rows, columns = 32, 128"),),
         base=(Swap("rows, columns = 32, 128", "rows, columns = 8, 512"),), why="32 blocks."),
    Case("column_sum", "spill-hot", {"M": 16384, "N": 4096},
         (Swap("rows, columns, turns = 8, 512, 32", "rows, columns, turns = 128, 512, 2"),),
         also=("occupancy-limited",), at=("held[i, j] +=", "part)"),
         static="bytes of registers are spilled"),
)  # fmt: skip

_POINTS = (
    Case("gather", "uncoalesced-global", {"V": 16384, "N": 2048, "M": 16384},
         (Swap("rows, columns = 8, 512", "rows, columns = 4096, 1"),), also=("narrow-access",),
         at=("Table[", "Out[row"),
         static="32 sectors a request, 2 needed"),
    Case("transpose", "narrow-access", {"M": 4096, "N": 8192},
         (Swap("T.Parallel(columns, rows)", "T.Parallel(columns, rows, coalesced_width=1)"),),
         also=("bank-conflict",), static="store Y: 4-byte accesses"),
    Case("transpose", "excess-traffic", {"M": 16384, "N": 16384},
         (Swap("T.use_swizzle(16)", "T.use_swizzle(1)"),),
         why="Blocks that run together write short pieces of rows."),
    Case("elementwise", "slow-math", {"M": 8192, "N": 8192},
         (Swap("T.exp2(z * -1.44269504)", "T.exp2(z * T.float64(-1.44269504))"),),
         static="DMUL|DFMA"),
)  # fmt: skip

_DECOYS = (
    Case("gated", "slow-math", {"M": 4096, "N": 4096, "K": 32768},
         (Swap("T.exp2(sums", "T.pow(2.0, sums"),), "decoy", also=("spill-hot",),
         why="A power for each element, after 512 turns."),
    Case("softmax", "narrow-access", {"M": 32768, "N": 8192},
         (Swap(LOAD_X, LOAD_X.replace("N)", "N, coalesced_width=4)")),), "decoy",
         static="load X: 8-byte accesses", why="Eight bytes keep up with memory."),
    Case("layer_norm", "slow-math", {"M": 65536, "N": 512},
         (Swap("T.rsqrt(square[i] / N", "T.rsqrt(T.cast(square[i], T.float64) / N"),), "decoy",
         static="DMUL|DFMA", why="A square root of float64 a row."),
)  # fmt: skip

CASES = (*_ATTENTION, *_GEMM, *_ROWS, *_POINTS, *_DECOYS)
