# ruff: noqa: ANN001, ANN201, D103
"""Signs of a gradient that most of fifteen workers sent, bit by bit in words of 32 signs."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def majority_votes(Signs, block_N: int = 1024, num_threads: int = 256):
    workers, N = T.const("workers, N")
    Signs: T.Tensor((workers, N), T.int32)
    Vote = T.empty((N,), T.int32)

    with T.Kernel(T.ceildiv(N, block_N), threads=num_threads) as bx:
        for i in T.Parallel(block_N):
            digit = T.alloc_local((4,), T.int32)  # counts of 32 votes, a bit of each in a word
            for power in T.unroll(4):
                digit[power] = 0
            for worker in T.unroll(workers):
                carry = Signs[worker, bx * block_N + i]
                for power in T.unroll(4):
                    both = digit[power] & carry
                    digit[power] = digit[power] ^ carry
                    carry = both
            Vote[bx * block_N + i] = digit[3]
    return Vote
