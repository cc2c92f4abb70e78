"""The second test split: other kernels, combinations and shapes, frozen, and run once.

Its result is in `benchmarks/results/plant-second-test.json`; since then rules are tuned on it too.
"""

from __future__ import annotations

from .cases_dev import TILE, WEIGHTS
from .twins import Case, Swap

__all__ = ["CASES"]

_WEIGHTS = WEIGHTS.replace("T.exp2", "T.__exp2").replace("((", "(")
_POWERS = "scores[i, j] = T.pow(2.0, scores"
_COLUMNS = "scores, transpose_B=True, clear_accum=True"
_STORE = Swap(
    "T.copy(sums, C[by * rows, bx * columns])",
    "for i, j in T.Parallel(rows, columns): C[by * rows + i, bx * columns + j] = sums[i, j]",
)
_DRAINED = Swap(_STORE.fixed, _STORE.planted, "epilogue-drain")
_ONE_WIDE = Swap(
    "T.Parallel(rows, columns)", "T.Parallel(rows, columns, coalesced_width=1)", "narrow-access"
)
_POWER = Swap("T.__exp2(T.abs(step)", "T.pow(2.0, T.abs(step)", "slow-math")
_DEEPER = (Swap("num_stages=2", "num_stages=3"),)

_GEMM = (
    Case("row_bias", "pipeline-too-shallow", {"M": 8448, "N": 4096, "K": 2048},
         (Swap("num_stages=4", "num_stages=2"),), why="Loads take longer than one turn."),
    Case("row_bias", "small-grid", {"M": 1408, "N": 1536, "K": 16384},
         (Swap("128, 128, 64", TILE),), base=(Swap(TILE, "128, 128, 64"),),
         why="66 blocks; of narrow tiles there are 132."),
    Case("row_bias", "epilogue-drain", {"M": 8448, "N": 8192, "K": 1024}, (_STORE,),
         also=("uncoalesced-global", "narrow-access"), static="store C: 4-byte accesses"),
    Case("outer", "missed-async-copy", {"M": 4224, "N": 4096, "K": 3072},
         (Swap("A_shared)\n", 'A_shared, prefer_instruction="sync")\n'),),
         static="copy A → A_shared: loads and stores"),
    Case("outer", "wasted-lanes", {"M": 33792, "N": 384, "K": 4096},
         (Swap("128, 192, 64", TILE),), base=(Swap(TILE, "128, 192, 64"),),
         why="Half of each second tile is outside of B."),
    Case("outer", "tail-wave", {"M": 1408, "N": 3072, "K": 12288},
         (Swap(TILE, "128, 192, 64"),),
         why="176 tiles on 132 multiprocessors; of wide ones there are 132."),
    Case("outer", "tensor-core-missed", {"M": 4224, "N": 4096, "K": 1536},
         (Swap("(depth, columns), T.bfloat16", "(depth, columns), T.float16"),),
         also=("missed-async-copy",), at=("T.gemm(",), static="gemm: fma"),
    Case("gate_pair", "layout-convert", {"M": 8448, "N": 4096, "K": 768},
         (Swap("values, transpose_B=True",
               "values, transpose_B=True, policy=T.GemmWarpPolicy.FullCol"),),
         at=("values[i, j] = values",), static="buffer (values|gates): converted to"),
    Case("batched", "pipeline-too-shallow", {"batch": 11, "M": 1536, "N": 2048, "K": 2048},
         (Swap("num_stages=4", "num_stages=2"),), why="Loads take longer than one turn."),
)  # fmt: skip

_ATTENTION = (
    Case("alibi", "layout-convert", {"heads": 33, "length": 2048, "dim": 128},
         (Swap(_COLUMNS, f"{_COLUMNS}, policy=T.GemmWarpPolicy.FullCol"),),
         at=("T.copy(scores, weights)", "* correction[i]", "T.reduce_"),
         static="buffer weights: converted to"),
    Case("alibi", "slow-math", {"heads": 66, "length": 2048, "dim": 64},
         (Swap(_WEIGHTS, _POWERS),), base=_DEEPER),
    Case("alibi", "wgmma-serialized", {"heads": 66, "length": 3072, "dim": 64},
         (Swap("threads=256", "threads=128"),), base=_DEEPER, also=("spill-hot",),
         at=("T.gemm(",), static="each wgmma waits for the one before it"),
    Case("alibi", "missed-async-copy", {"heads": 22, "length": 3072, "dim": 128},
         (Swap("K_shared)\n", 'K_shared, prefer_instruction="sync")\n'),),
         static="copy K → K_shared: loads and stores"),
)  # fmt: skip

_ROWS = (
    Case("add_norm", "narrow-access", {"M": 40960, "N": 4096},
         (Swap("T.Parallel(rows, N):\n            here",
               "T.Parallel(rows, N, coalesced_width=1):\n            here"),),
         at=("= T.cast(R[", "= T.cast(X[", "Y[block"), static="load X: 2-byte accesses"),
    Case("add_norm", "spill-hot", {"M": 30720, "N": 6144}, (Swap("rows = 1", "rows = 16"),),
         also=("occupancy-limited",), at=("x[i, j]", "T.reduce_", "= T.cast(R["),
         static="bytes of registers are spilled"),
    Case("cross_entropy", "occupancy-limited", {"M": 135168, "N": 1024},
         (Swap("rows, lanes = 8, 128", "rows, lanes = 48, 128"),),
         static="occupancy: 1 block of"),
    Case("cross_entropy", "barrier-imbalance", {"M": 135168, "N": 1280},
         (Swap("rows, lanes = 8, 128", "rows, lanes = 8, 4"),),
         at=("T.Parallel(rows, lanes)", "T.reduce_", "tile[i, j * lanes"),
         why="One warp goes along the rows, seven wait."),
)  # fmt: skip

_REDUCTIONS = (
    Case("moments", "epilogue-drain", {"M": 33792, "N": 8192},
         (Swap("4, 1024, 64", "4, 1024, 1"),), at=("T.atomic_add(", "totals["),
         why="Each four rows end in two atomics a column."),
    Case("moments", "uncoalesced-global", {"M": 67584, "N": 4096},
         (Swap("4, 1024, 64", "2048, 2, 3"),), also=("excess-traffic", "narrow-access"),
         at=("T.copy(X[",), static="load X: 4-byte accesses, 16 sectors"),
    Case("moments", "small-grid", {"M": 33792, "N": 4096},
         (Swap("4, 1024, 64", "4, 1024, 1056"),), why="32 blocks."),
)  # fmt: skip

_POINTS = (
    Case("mu_law", "slow-math", {"M": 32768, "N": 8192},
         (Swap(_POWER.fixed, _POWER.planted),)),
    Case("mu_law", "narrow-access", {"M": 24576, "N": 16384},
         (Swap(_ONE_WIDE.fixed, _ONE_WIDE.planted),), at=("= T.cast(X[", "Y[by"),
         static="load X: 1-byte accesses"),
    Case("oscillate", "icache-unroll", {"N": 132 * 2 * 4 * 8192},
         (Swap("T.serial(64)", "T.unroll(64)"),), why="A body of more than 128 KB of code."),
    Case("oscillate", "spill-hot", {"N": 132 * 2 * 6 * 8192},
         (Swap("block = 8192", "block = 49152"),), also=("occupancy-limited",),
         at=("v[i] = v[i]", "x[i] = x[i]"), static="bytes of registers are spilled"),
    Case("oscillate", "tail-wave", {"N": 132 * 2 * 8192},
         (Swap("block = 8192", "block = 12288"),), also=("occupancy-limited",),
         why="176 blocks on 132 multiprocessors, one on each."),
    Case("pair_gather", "uncoalesced-global", {"V": 32768, "P": 2048, "N": 4096, "M": 24576},
         (Swap("4, 1024", "4096, 1"),), also=("narrow-access", "excess-traffic"),
         at=("Tokens[", "Places[", "Out[row"), static="32 sectors a request, 2 needed"),
    Case("transpose", "bank-conflict", {"M": 8192, "N": 12288},
         (Swap("T.alloc_shared((rows, columns), T.float32)",
               "T.reshape(T.alloc_shared((rows * columns,), T.float32), (rows, columns))"),),
         at=("tile[",), why="A reshaped tile lies in rows: a warp reads two of its banks."),
    Case("transpose", "occupancy-limited", {"M": 12288, "N": 9216},
         (Swap("rows, columns = 64, 64", "rows, columns = 256, 192"),),
         static="occupancy: 1 block of"),
)  # fmt: skip

_COMPOUND = (
    Case("mu_law", "narrow-access", {"M": 16384, "N": 16384},
         (_ONE_WIDE, _POWER), "compound", at=("Y[by",)),
    Case("row_bias", "pipeline-too-shallow", {"M": 4224, "N": 16384, "K": 1024},
         (Swap("num_stages=4", "num_stages=2", "pipeline-too-shallow"), _DRAINED), "compound",
         also=("uncoalesced-global", "narrow-access")),
    Case("alibi", "layout-convert", {"heads": 44, "length": 1536, "dim": 128},
         (Swap(_COLUMNS, f"{_COLUMNS}, policy=T.GemmWarpPolicy.FullCol", "layout-convert"),
          Swap(_WEIGHTS, _POWERS, "slow-math")), "compound",
         at=("T.copy(scores, weights)", "* correction[i]", "T.reduce_")),
)  # fmt: skip

_DECOYS = (
    Case("outer", "epilogue-drain", {"M": 2816, "N": 1536, "K": 24576}, (_STORE,), "decoy",
         also=("uncoalesced-global", "narrow-access"),
         static="store C: 4-byte accesses", why="Stores of 4 bytes, once in 384 turns."),
    Case("add_norm", "slow-math", {"M": 36864, "N": 8192},
         (Swap("mean[i] / N", "T.cast(mean[i], T.float64) / N"),), "decoy", static="DFMA",
         why="A square root of float64 a row."),
    Case("pair_gather", "narrow-access", {"V": 49152, "P": 4096, "N": 4096, "M": 24576},
         (Swap(_ONE_WIDE.fixed, "T.Parallel(rows, columns, coalesced_width=4)"),), "decoy",
         static="load Tokens: 8-byte accesses", why="Eight bytes keep up with memory."),
    Case("alibi", "missed-async-copy", {"heads": 11, "length": 9216, "dim": 128},
         (Swap("Q_shared)\n", 'Q_shared, prefer_instruction="sync")\n'),), "decoy",
         static="copy Q → Q_shared: loads and stores", why="Once a block, before 72 turns."),
    Case("oscillate", "occupancy-limited", {"N": 132 * 2 * 5 * 8192},
         (Swap("block = 8192", "block = 16384"),), "decoy", static="occupancy: 1 block of",
         why="Each thread has 64 springs: two warps a scheduler keep it busy."),
)  # fmt: skip

_CLEAN = (
    Case("row_bias", "near-roof", {"M": 8448, "N": 8192, "K": 8192}, (), "clean"),
    Case("add_norm", "near-roof", {"M": 49152, "N": 6144}, (), "clean"),
    Case("mu_law", "near-roof", {"M": 32768, "N": 12288}, (), "clean"),
    Case("pair_gather", "near-roof", {"V": 65536, "P": 4096, "N": 8192, "M": 16384}, (), "clean"),
)

CASES = (
    *_GEMM, *_ATTENTION, *_ROWS, *_REDUCTIONS, *_POINTS, *_COMPOUND, *_DECOYS, *_CLEAN,
)  # fmt: skip
