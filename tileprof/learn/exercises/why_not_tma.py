"""Read the compiler's remarks: which instruction, why no asynchronous copy, and what would do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileprof.learn.answers import AnswerJudge, Question
from tileprof.learn.conditions import TARGET
from tileprof.learn.exercise import Attempt, Exercise, Hint
from tileprof.remarks import Remark
from tileprof.remarks.copies import RowStride, TmaLoad
from tileprof.remarks.products import GemmInstruction

EXTENTS = {"M": 512, "N": 512}
ASKED = 1001


def remarks_of(attempt: Attempt, depth: int) -> Sequence[Remark]:
    """Return the decisions about the kernel of the learner's file for an extent K."""
    kernel: Any = attempt.members["scores"]
    remarks: Sequence[Remark] = kernel.compile(**EXTENTS, K=depth).program.lowered(TARGET).remarks
    return remarks


def wrong_instruction(answer: Any, attempt: Attempt) -> str:
    """Compare with the remark of the product."""
    for each in remarks_of(attempt, ASKED):
        if isinstance(each.decision, GemmInstruction):
            right = str(answer).strip().lower() == each.decision.instruction
            return "" if right else "See the remark that begins with `gemm:`."
    return "The kernel has no product: put it back as it was."


def wrong_stride(answer: Any, attempt: Attempt) -> str:
    """Compare with the reason against TMA."""
    strides = {
        reason.stride for each in remarks_of(attempt, ASKED) for reason in each.reasons(RowStride)
    }
    return "" if int(answer) in strides else "See the reason `not tma` of the copies."


def wrong_padding(answer: Any, attempt: Attempt) -> str:
    """Compile with the answer, and with a smaller one."""
    padded = int(answer)
    if padded < ASKED:
        return f"K has to hold {ASKED} columns."
    if not _by_tma(attempt, padded):
        return f"For K={padded}, the compiler still does not load both tiles by TMA."
    if padded > ASKED and any(_by_tma(attempt, k) for k in range(max(ASKED, padded - 16), padded)):
        return "A smaller K will do."
    return ""


def _by_tma(attempt: Attempt, depth: int) -> bool:
    loads = [e for e in remarks_of(attempt, depth) if e.op == "copy" and e.names[0] in ("A", "B")]
    return len(loads) == 2 and all(isinstance(each.decision, TmaLoad) for each in loads)


STARTER = """
import tileprof
import tileprof.lang as T

INSTRUCTION = None  # what multiplies the tiles: "wgmma", "mma" or "fma"
STRIDE = None  # bytes from one row of A to the next
PADDED = None  # the smallest K from 1001 on with which TMA loads both tiles


@tileprof.jit
def scores(A, B, block_M: int = 128, block_N: int = 128, block_K: int = 64):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((N, K), T.float16)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        A_tile = T.alloc_shared((block_M, block_K), T.float16)
        B_tile = T.alloc_shared((block_N, block_K), T.float16)
        C_tile = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_tile)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[by * block_M, k * block_K], A_tile)
            T.copy(B[bx * block_N, k * block_K], B_tile)
            T.gemm(A_tile, B_tile, C_tile, transpose_B=True)
        T.copy(C_tile, C[by * block_M, bx * block_N])
    return C
"""

EXERCISE = Exercise(
    name="why_not_tma",
    title="Ask the compiler why",
    track="reading",
    task="""
        A pipelined product of matrices with M = N = 512 and K = 1001 is slow on Hopper. No GPU is
        needed to see why: the compiler says what each operation became, what it did not become, and
        the reason.

        Run: tileprof compile why_not_tma.py:scores --target sm_90a --set M=512 --set N=512 --set
        K=1001 --emit remarks. Then find out how much padding of the rows would help.
    """,
    uses=("language.md#copies", "gpu.md#see-how-a-kernel-was-compiled"),
    starter=STARTER,
    judge=AnswerJudge(
        "why_not_tma",
        (
            Question("INSTRUCTION", "what multiplies the tiles", wrong_instruction),
            Question("STRIDE", "bytes from one row of A to the next, for K=1001", wrong_stride),
            Question("PADDED", "the smallest K from 1001 on with which TMA loads both tiles",
                     wrong_padding),
        ),
    ),
    hints=(
        Hint("Each remark is `subject: decision`, and lines with `not` give what was not chosen."),
        Hint("The rows of A are not a multiple of 16 bytes apart, which TMA needs. An element has "
             "2 bytes."),
        Hint("1001 rounded up to a multiple of 8 elements.",
             (('INSTRUCTION = None  # what multiplies the tiles: "wgmma", "mma" or "fma"',
               'INSTRUCTION = "wgmma"'),
              ("STRIDE = None  # bytes from one row of A to the next", "STRIDE = 2002"),
              ("PADDED = None  # the smallest K from 1001 on with which TMA loads both tiles",
               "PADDED = 1008"))),
    ),
    said="With `strict=True`, the compiler raises an error where it cannot take the fast form.",
)  # fmt: skip
