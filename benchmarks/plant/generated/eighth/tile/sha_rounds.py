# ruff: noqa: ANN001, ANN201, D103
"""Digests of many messages of 64 bytes, by the 64 rounds of SHA-256."""

import tileprof
import tileprof.lang as T

START = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
         0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)  # fmt: skip


def turned(x, by):
    return (x >> T.uint32(by)) | (x << T.uint32(32 - by))


@tileprof.jit
def sha_rounds(Word, Round):
    N = T.const("N")
    Word: T.Tensor((16, N), T.uint32)
    Round: T.Tensor((64,), T.uint32)
    Digest = T.empty((8, N), T.uint32)
    messages = 128

    with T.Kernel(T.ceildiv(N, messages), threads=128) as bx:
        for i in T.Parallel(messages):
            n = bx * messages + i
            if n < N:
                w = T.alloc_local((16,), T.uint32)
                s = T.alloc_local((8,), T.uint32)
                for t in T.unroll(16):
                    w[t] = Word[t, n]
                for t in list(range(8)):
                    s[t] = T.uint32(START[t])
                for t in T.unroll(64):
                    if t >= 16:
                        a, b = w[(t + 1) % 16], w[(t + 14) % 16]
                        low = turned(a, 7) ^ turned(a, 18) ^ (a >> T.uint32(3))
                        high = turned(b, 17) ^ turned(b, 19) ^ (b >> T.uint32(10))
                        w[t % 16] = w[t % 16] + low + w[(t + 9) % 16] + high
                    spin = turned(s[4], 6) ^ turned(s[4], 11) ^ turned(s[4], 25)
                    choice = (s[4] & s[5]) ^ (~s[4] & s[6])
                    one = s[7] + spin + choice + Round[t] + w[t % 16]
                    most = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2])
                    two = (turned(s[0], 2) ^ turned(s[0], 13) ^ turned(s[0], 22)) + most
                    s[7], s[6], s[5] = s[6], s[5], s[4]
                    s[4] = s[3] + one
                    s[3], s[2], s[1] = s[2], s[1], s[0]
                    s[0] = one + two
                for t in list(range(8)):
                    Digest[t, n] = s[t] + T.uint32(START[t])
    return Digest
