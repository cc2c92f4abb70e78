# ruff: noqa: ANN001, ANN201, D103
"""Words of messages, each block of sixteen exclusive-or its own words of a ChaCha20 key stream."""

import tileprof
import tileprof.lang as T

SIGMA = (1634760805, 857760878, 2036477234, 1797285236)


def rotated(x, by):
    return (x << T.uint32(by)) | (x >> T.uint32(32 - by))


@T.macro
def quarter(state, a, b, c, d):
    state[a] = state[a] + state[b]
    state[d] = rotated(state[d] ^ state[a], 16)
    state[c] = state[c] + state[d]
    state[b] = rotated(state[b] ^ state[c], 12)
    state[a] = state[a] + state[b]
    state[d] = rotated(state[d] ^ state[a], 8)
    state[c] = state[c] + state[d]
    state[b] = rotated(state[b] ^ state[c], 7)


@tileprof.jit
def chacha_words(Data, Key):
    N = T.const("N")
    Data: T.Tensor((16, N), T.uint32)
    Key: T.Tensor((11,), T.uint32)
    Out = T.empty((16, N), T.uint32)
    blocks = 256

    with T.Kernel(T.ceildiv(N, blocks), threads=256) as bx:
        for i in T.Parallel(blocks):
            counter = bx * blocks + i
            if counter < N:
                start = T.alloc_local((16,), T.uint32)
                state = T.alloc_local((16,), T.uint32)
                for w in list(range(4)):
                    start[w] = T.uint32(SIGMA[w])
                for w in list(range(8)):
                    start[4 + w] = Key[w]
                start[12] = T.cast(counter, T.uint32)
                for w in list(range(3)):
                    start[13 + w] = Key[8 + w]
                for w in T.unroll(16):
                    state[w] = start[w]
                for _ in T.serial(10):
                    for column in T.unroll(4):
                        quarter(state, column, 4 + column, 8 + column, 12 + column)
                    for column in T.unroll(4):
                        b, c, d = (column + 1) % 4, (column + 2) % 4, (column + 3) % 4
                        quarter(state, column, 4 + b, 8 + c, 12 + d)
                for w in T.unroll(16):
                    Out[w, counter] = (state[w] + start[w]) ^ Data[w, counter]
    return Out
