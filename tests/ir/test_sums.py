"""Index expressions are taken apart into terms with factors, and a constant."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tileprof import ir
from tileprof.ir.sums import Sum, sum_of

J, K = ir.Value(ir.index, "j"), ir.Value(ir.index, "k")


def made(kind: Any, left: ir.Value, right: ir.Value) -> ir.Value:
    """An operation on two numbers."""
    return ir.Binary(kind, left, right).result


def number(value: int) -> ir.Value:
    """A constant."""
    return ir.Constant(value, ir.index).result


EXPRESSIONS = st.recursive(
    st.sampled_from([J, K]) | st.integers(-9, 9).map(number),
    lambda inner: st.builds(made, st.sampled_from(["add", "sub", "mul"]), inner, inner),
    max_leaves=12,
)


def evaluated(value: ir.Value, at: dict[ir.Value, int]) -> int:
    """The number that an expression is."""
    match value.owner:
        case ir.Constant(value=known):
            return int(known)
        case ir.Binary(kind=kind, left=left, right=right):
            function = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[kind]
            return int(function(evaluated(left, at), evaluated(right, at), dtype=object))
        case _:
            return at[value]


@given(EXPRESSIONS, st.integers(-50, 50), st.integers(-50, 50))
def test_sum_is_what_the_expression_is(value: ir.Value, j: int, k: int) -> None:
    """Whatever the variables are; a term is no sum, and no factor is 0."""
    at = {J: j, K: k}
    found = sum_of(value)
    total = sum(factor * evaluated(term, at) for term, factor in found.terms.items())
    assert total + found.constant == evaluated(value, at)
    assert all(found.terms.values())
    assert all(sum_of(term) == Sum({term: 1}) for term in found.terms)


def test_equal_sums_need_not_be_written_alike() -> None:
    """`(k + 1) * 64 - j` and `k * 32 * 2 - (j - 64)`."""
    one = made("sub", made("mul", made("add", K, number(1)), number(64)), J)
    twice = made("mul", made("mul", K, number(32)), number(2))
    other = made("sub", twice, made("sub", J, number(64)))
    assert sum_of(one) == sum_of(other) == Sum({K: 64, J: -1}, 64)


def test_what_lies_behind_a_value_is_taken_apart() -> None:
    """A cast is a term, unless the caller looks through it."""
    cast = ir.Cast(made("add", J, number(3)), ir.dtype("int32")).result

    def behind(value: ir.Value) -> ir.Value:
        return value.owner.operand if isinstance(value.owner, ir.Cast) else value

    assert sum_of(cast) == Sum({cast: 1})
    assert sum_of(cast, behind) == Sum({J: 1}, 3)
