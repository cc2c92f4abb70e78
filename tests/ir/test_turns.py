"""Turns that do not balance on some way through a role are named."""

from __future__ import annotations

import pytest

from tileprof import ir
from tileprof.errors import InternalError

WAIT, PASS = "turn_wait\n", "turn_pass\n"
TURN = WAIT + PASS


def loop(body: str) -> str:
    """Any number of iterations."""
    return f"for serial %n, %n, %n body(%i: index) {{\n{body}}}\n"


def branch(then: str, otherwise: str = "") -> str:
    """One way or the other."""
    return f"if %yes then {{\n{then}}} otherwise {{\n{otherwise}}}\n"


def kernel(consumer: str, producer: str = "", before: str = "") -> ir.Kernel:
    """With such ops in its roles."""
    roles = f"roles producer {{\n{producer}}} consumer {{\n{consumer}}}\n"
    text = "%yes = lt %n, %n : bool\nlaunch [%n] {threads = [256]} body(%b: index) {\n"
    return ir.parse(f"kernel @k(%n: index) {{\n{text}{before}{roles}}}\n}}\n")


@pytest.mark.parametrize(
    "body",
    [
        loop(TURN),
        loop(loop(TURN) + loop(TURN)),
        WAIT + loop(PASS + WAIT) + PASS,
        branch(TURN),
        branch(WAIT, WAIT) + PASS,
        loop(branch("break\n") + TURN),
        loop(WAIT + branch(PASS + "continue\n") + PASS),
        WAIT + loop(branch(PASS + WAIT + "break\n", "continue\n")) + PASS,
    ],
)
def test_balanced(body: str) -> None:
    """Each way waits and passes by turns; the text is parsed back."""
    made = kernel("turn_start\n" + body)
    ir.verify(made)
    text = ir.print_kernel(made)
    assert ir.print_kernel(ir.parse(text)) == text


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (TURN, "no turns have started"),
        ("turn_start\n" + loop(WAIT) + PASS, "an iteration takes or passes a turn alone"),
        ("turn_start\n" + WAIT + loop(PASS), "an iteration takes or passes a turn alone"),
        ("turn_start\n" + PASS, "the warp group has no turn"),
        ("turn_start\n" + WAIT + TURN, "the warp group has its turn"),
        ("turn_start\n" + WAIT, "a role ends with a turn that it did not pass"),
        ("turn_start\n" + WAIT + branch(PASS), "one way takes or passes a turn alone"),
        ("turn_start\n" + loop(WAIT + branch("break\n") + PASS), "it leaves with a turn"),
        ("turn_start\n" + loop(branch(WAIT + "continue\n") + TURN), "it leaves with a turn"),
        ("turn_start\nturn_start\n" + TURN, "turns start once"),
        (loop("turn_start\n" + TURN), "turns start once"),
        (f"parallel [%n] body(%p: index) {{\n{TURN}}}\n", "only consumers take turns"),
    ],
)
def test_unbalanced(body: str, sentence: str) -> None:
    """One way that would hang, or let two groups go at once."""
    with pytest.raises(InternalError, match="kernel `k` is not valid") as caught:
        ir.verify(kernel(body))
    assert sentence in caught.value.message


def test_only_consumers() -> None:
    """Neither the producer nor the whole block."""
    for made in (kernel("", producer=TURN), kernel("", before="turn_start\n")):
        with pytest.raises(InternalError) as caught:
            ir.verify(made)
        assert "only consumers take turns" in caught.value.message
