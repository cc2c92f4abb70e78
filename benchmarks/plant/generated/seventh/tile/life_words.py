# ruff: noqa: ANN001, ANN201, D103
"""A generation of Conway's game on a torus, of 32 cells in each word."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def life_words(Cells, rows: int = 4, words: int = 256):
    H, W = T.const("H, W")
    Cells: T.Tensor((H, W), T.uint32)
    Next = T.empty((H, W), T.uint32)

    with T.Kernel(T.ceildiv(W, words), T.ceildiv(H, rows), threads=256) as (bx, by):
        for r, c in T.Parallel(rows, words):
            y, x = by * rows + r, bx * words + c
            if y < H and x < W:
                one = T.alloc_local((1,), T.uint32)
                two = T.alloc_local((1,), T.uint32)
                many = T.alloc_local((1,), T.uint32)
                one[0], two[0], many[0] = T.uint32(0), T.uint32(0), T.uint32(0)
                for d in T.unroll(3):
                    line = (y + d + H - 1) % H
                    here = Cells[line, x]
                    before, after = Cells[line, (x + W - 1) % W], Cells[line, (x + 1) % W]
                    left = (here << T.uint32(1)) | (before >> T.uint32(31))
                    right = (here >> T.uint32(1)) | (after << T.uint32(31))
                    for n in T.unroll(3):
                        side = T.if_then_else(n == 0, left, right)
                        bits = T.if_then_else(n == 1, here, side)
                        bits = T.if_then_else(n == 1 and d == 1, T.uint32(0), bits)
                        carry = one[0] & bits
                        one[0] = one[0] ^ bits
                        many[0] = many[0] | (two[0] & carry)
                        two[0] = two[0] ^ carry
                Next[y, x] = two[0] & ~many[0] & (one[0] | Cells[y, x])
    return Next
