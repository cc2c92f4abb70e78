"""Control flow as Python means it: each function runs on lists by Python and as a macro."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, D103, SIM108
# The functions take lists or buffers alike, so nothing can be said about their types.

from __future__ import annotations

import tileprof
import tileprof.lang as T

SIZE = 12


@tileprof.jit
def run_flow(A, flow, n: T.int32):
    A: T.Tensor((SIZE,), T.int32)
    B = T.empty((SIZE,), T.int32)
    with T.Kernel(1):
        for i in range(SIZE):
            B[i] = 0
        flow(A, B, n)
    return B


def accumulate(A, B, n):
    total = 0
    for i in range(n):
        total += A[i]
        B[i] = total


def counted_down(A, B, n):
    for i in range(n - 1, -1, -2):
        B[i] = A[i] + i


def square_roots(A, B, n):
    for i in range(n):
        root = 0
        while (root + 1) * (root + 1) <= A[i]:
            root += 1
        B[i] = root


def leave_early(A, B, n):
    found = -1
    for i in range(n):
        if A[i] == 7:
            continue
        if A[i] > 20:
            found = i
            break
        B[i] = 1
    B[n - 1] = found


def nested_breaks(A, B, n):
    for i in range(n):
        for j in range(n):
            if j == i:
                break
            if (A[j] + i) % 3 == 0:
                continue
            B[i] += A[j]


def branches(A, B, n):
    for i in range(n):
        if A[i] < 5:
            kind = 1
            bonus = A[i]
        elif A[i] < 12 or i == 3:
            kind = 2
            bonus = 0
        else:
            kind, bonus = 3, -A[i]
        B[i] = kind * 100 + bonus


def branch_keeps_or_changes(A, B, n):
    limit = 10
    for i in range(n):
        if A[i] > limit:
            limit = A[i]
        elif i > 6:
            limit = limit - 1
        B[i] = limit


def short_circuits(A, B, n):
    for i in range(n):
        # The second operand must not be reached: it would read outside of A.
        if i + 1 < n and A[i + 1] > A[i]:
            B[i] = 1
        if i == 0 or A[i - 1] % 2 == 0:
            B[i] += 10
        B[i] += 100 if not (A[i] > 5 and A[i] < 15) else 200


def chains(A, B, n):
    for i in range(n):
        if 3 < A[i] <= 14 != i:
            B[i] = 1
        B[i] += 5 if 0 <= i - 2 < 4 < A[i] else 7


def swaps(A, B, n):
    a, b = 0, 1
    for i in range(n):
        B[i] = a
        a, b = b, (a + b) % 1000
    B[0], B[1] = B[1], B[0]


def continue_after_change(A, B, n):
    count = 0
    for i in range(n):
        if A[i] % 2 == 0:
            count += 1
            continue
        count += 10
        B[i] = count
    B[0] = count


def while_with_break(A, B, n):
    i = 0
    total = 0
    while i < n:
        total += A[i]
        i += 1
        if total > 50:
            break
    B[0] = total
    B[1] = i


def unrolled_by_python(A, B, n):
    steps = [1, 2, 3]
    for at, step in enumerate(steps):
        if step == 2:
            continue
        B[at] = A[at] * step
    values = [A[i] * 2 for i in (3, 4, 5)]
    for at, value in zip((6, 7, 8), values):
        B[at] = value
    depth = 0
    while depth < 3:
        B[9] += A[depth]
        depth += 1


def arithmetic(A, B, n):
    for i in range(n):
        x = A[i] - 9
        B[i] = x // 4 * 1000 + x % 4 * 100 + (x & 6) + (x << 1) - (x >> 1) ^ 3
        B[i] += abs(x) * 2 - x**2 + (-x)


def temporaries(A, B, n):
    x = 3
    for i in range(n):
        x = A[i] * 2
        B[i] = x
    for i in range(n):
        x = B[i] + 1
        B[i] = x
    B[0] += x


def nested_helper(A, B, n):
    def clip(value, low):
        if value < low:
            result = low
        else:
            result = value
        return result

    for i in range(n):
        B[i] = clip(A[i], 6) + clip(i, 2)


FLOWS = [
    accumulate, counted_down, square_roots, leave_early, nested_breaks, branches,
    branch_keeps_or_changes, short_circuits, chains, swaps, continue_after_change,
    while_with_break, unrolled_by_python, arithmetic, temporaries, nested_helper,
]  # fmt: skip
