# ruff: noqa: ANN001, ANN201, D103
"""The four gates of an LSTM at one step, from their sums to the next state."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def lstm_cell(Gates, Cell):
    M, H = T.const("M, H")
    Gates: T.Tensor((M, 4, H), T.bfloat16)
    Cell: T.Tensor((M, H), T.float32)
    Out = T.empty((2, M, H), T.float32)
    rows, columns = 2, 512

    with T.Kernel(T.ceildiv(H, columns), T.ceildiv(M, rows), threads=128) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            row, column = by * rows + i, bx * columns + j
            let = 1.0 / (1.0 + T.__exp2(T.cast(Gates[row, 0, column], T.float32) * -1.44269504))
            keep = 1.0 / (1.0 + T.__exp2(T.cast(Gates[row, 1, column], T.float32) * -1.44269504))
            new = 2.0 / (1.0 + T.__exp2(T.cast(Gates[row, 2, column], T.float32) * -2.88539008))
            show = 1.0 / (1.0 + T.__exp2(T.cast(Gates[row, 3, column], T.float32) * -1.44269504))
            cell = keep * Cell[row, column] + let * (new - 1.0)
            Out[0, row, column] = cell
            Out[1, row, column] = show * (2.0 / (1.0 + T.__exp2(cell * -2.88539008)) - 1.0)
    return Out
