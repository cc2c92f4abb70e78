"""The verifier: each broken rule is named, with the kernel's text in the report."""

from __future__ import annotations

from typing import Any

import pytest

from tileprof import ir
from tileprof.errors import InternalError
from tileprof.ir.core import op, operand
from tileprof.runtime.device import written_params

INSIDE = "launch [%n] {{threads = [32]}} body(%b: index) {{\n{0}\n}}"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("%1 = constant 1.0 : float32\n%2 = add %n, %1 : index", "add of index and float32"),
        ("%t = alloc shared {shape = [4]} : shared<4, float32>", "it stands inside a launch"),
        (INSIDE.format("break"), "there is no loop around it"),
        (INSIDE.format("parallel [%n] body(%i: index) {\nbreak\n}"), "no order to break off"),
        (INSIDE.format("parallel [%n] body(%i: index) {\ncopy %x, %x\n}"), "outside `parallel`"),
        (INSIDE.format(INSIDE.format("").replace("{{", "{")), "stands at the top"),
        (INSIDE.format("yield [%n]"), "it ends a block of `if`"),
        (INSIDE.format("%0 = load %x, [%n, %n] : float32"), "2 indices for global<64, float32>"),
        (INSIDE.format("store %n, %x, [%n]"), "stores index into global<64, float32>"),
        (
            INSIDE.format(
                "%a = alloc fragment {{shape = [4, 8]}} : fragment<4, 8, float32>\n"
                "%c = alloc fragment {{shape = [4]}} : fragment<4, float32>\n"
                "reduce max %a, %c {{dim = 1, partial = true}}"
            ),
            "a partial max",
        ),
        (
            INSIDE.format(
                "%a = alloc fragment {{shape = [4]}} : fragment<4, float32>\n"
                "all_reduce max %a {{lanes = [1, 2]}}"
            ),
            "combines parts of a max",
        ),
        ("if %n then {\n} otherwise {\n}", "the condition is index, not bool"),
        (
            INSIDE.format(
                "for serial %n, %n, %n body(%i: index) {\ncontinue\n%1 = neg %n : index\n}"
            ),
            "ops after it never run",
        ),
    ],
)
def test_broken_rules_are_named(body: str, sentence: str) -> None:
    """One kernel a rule."""
    body = body.replace("{{", "{").replace("}}", "}")
    kernel = ir.parse(f"kernel @k(%x: global<64, float32>, %n: index) {{\n{body}\n}}\n")
    with pytest.raises(InternalError, match="kernel `k` is not valid") as caught:
        ir.verify(kernel)
    assert sentence in caught.value.message
    assert "kernel @k(" in caught.value.hint


def test_a_value_does_not_leave_its_block() -> None:
    """What a branch defines is unknown after it."""
    inner = ir.Block()
    inside = ir.Builder(inner).constant(1)
    body = ir.Block()
    builder = ir.Builder(body)
    condition = builder.constant(True, ir.dtype("bool"))
    builder.emit(ir.If(condition, inner, ir.Block()))
    builder.emit(ir.Unary("neg", inside))
    with pytest.raises(InternalError, match="not defined before it"):
        ir.verify(ir.Kernel("k", (), (), body))


def test_symbols_must_be_declared() -> None:
    """A shape's symbol is an argument of the kernel."""
    kernel = ir.parse("kernel @k(%x: global<m, float32>) symbols(%m) {\n}\n")
    ir.verify(kernel)
    with pytest.raises(InternalError, match="uses symbol m, which is not declared"):
        ir.verify(ir.Kernel("k", kernel.params, (), ir.Block(kernel.body.args[:1])))


@pytest.mark.parametrize(
    ("tables", "body", "sentence"),
    [
        ("", INSIDE.format("mark {{state = 0}}"), "names state 0, which is not there"),
        ("state 0", "mark {{state = 0}}", "inside a launch and outside `parallel`"),
        ("state 0\nstate 1 in 0", "", "state 1 names site 0, which is not there"),
        ('site 0 op "a"\nstate 0 in 0 from 2', "", "goes on with 2 sites, more than are around"),
        ('site 1 op "a"', "", "site 1 stands at 0"),
        ('site 0 op "a"\nsite 1 op "b" in 1', "", "or before the site that it lies in"),
    ],
)
def test_marks_name_what_is_there(tables: str, body: str, sentence: str) -> None:
    """States and sites of a kernel with marks."""
    body = body.replace("{{", "{").replace("}}", "}")
    kernel = ir.parse(f"kernel @k(%x: global<64, float32>, %n: index) {{\n{tables}\n{body}\n}}\n")
    with pytest.raises(InternalError) as caught:
        ir.verify(kernel)
    assert sentence in caught.value.message


def _declared(monkeypatch: pytest.MonkeyPatch, **said: Any) -> type[Any]:
    """A new op that takes a tile, with what its declaration says of its effects."""
    monkeypatch.setattr("tileprof.ir.core.OPS", {})

    @op("soften", effect=said.get("own"))
    class Soften(ir.OpBase):
        """An op that nobody knows."""

        tile: ir.Value = operand(said.get("tile"))

    return Soften


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({}, "its declaration does not say what it reads and writes"),
        (
            {"own": ir.Effect.PURE},
            "its declaration does not say whether it reads or writes `tile`",
        ),
    ],
)
def test_a_new_op_without_declared_effects_is_refused(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, Any], sentence: str
) -> None:
    """An op is not silently taken for one that leaves memory alone."""
    kernel = ir.parse("kernel @k(%x: global<64, float32>) {\n}\n")
    kernel.body.ops.append(_declared(monkeypatch, **said)(kernel.body.args[0]))
    assert any(sentence in each for each in ir.problems(kernel))


def test_declared_effects_are_what_passes_see(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new op that declares its effects is valid, and its access is found without a table."""
    kernel = ir.parse("kernel @k(%x: global<64, float32>) {\n}\n")
    tile = kernel.body.args[0]
    kernel.body.ops.append(_declared(monkeypatch, tile=ir.Effect.READ | ir.Effect.WRITE)(tile))
    assert list(ir.problems(kernel)) == []
    assert list(kernel.body.ops[0].accesses()) == [ir.Access(tile, True, True)]
    assert written_params(kernel) == [0]


def test_effects_on_nothing_named_are_refused() -> None:
    """Who writes something says what: an operand's memory or a resource."""
    with pytest.raises(ValueError, match="does not say what besides its operands"):
        op("soften", effect=ir.Effect.WRITE)(type("Soften", (ir.OpBase,), {}))


def test_every_op_declares_its_effects() -> None:
    """Those of all dialects, whether or not a test makes one."""
    assert [c.SPEC.name for c in ir.OPS.values() if not c.SPEC.declared] == []
