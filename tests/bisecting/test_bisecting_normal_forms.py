"""Texts without what has no effect."""

from __future__ import annotations

import pytest

from tileprof.bisecting import normal_forms as forms


@pytest.mark.parametrize(
    ("kind", "text", "same"),
    [
        (forms.PYTHON, "    def f(x):\n        # why\n        return x + 1\n",
         "def f(x):\n    return (x + 1)"),
        (forms.PYTHON, "def f(x): return x\f    def g(x): return x",
         "def f(x): return x\fdef g(x): return x"),
        (forms.MLIR, '#loc = loc("a":1:1)\n%x_1 = tt.load %p loc(callsite("f"("a":2:3) at #loc2))',
         "%0 = tt.load %1"),
        (forms.LLVM, 'source_filename = "a"\n  %3 = add i32 %1, 2, !dbg !7\n!7 = !{}',
         "  %a = add i32 %b, 2"),
        (forms.PTX, "\t.version 8.7\n\t.reg .b32 %r<9>;\n$L__BB0_2: //\n add.s32 %r4, %r5, %rd1;",
         "$L__BB0_9:\n add.s32 %r1, %r2, %rd8;\n"),
        (forms.CUDA, '#line 3 "k.py"\nx = y; /* a\n b */\n', "x = y;"),
    ],
)  # fmt: skip
def test_places_comments_and_numbers_are_left_out(kind: forms.Kind, text: str, same: str) -> None:
    """Both texts have one normal form."""
    assert forms.normal(kind, text) == forms.normal(kind, same)


@pytest.mark.parametrize(
    ("kind", "text", "other"),
    [
        (forms.PYTHON, "def f(x): return x + 1", "def f(x): return x + 2"),
        (forms.MLIR, "%0 = tt.load %1, %2", "%0 = tt.load %2, %2"),
        (forms.PTX, "add.s32 %r1, %r2, %r3;", "add.s32 %r1, %r1, %r3;"),
        (forms.PTX, "add.s32 %r1, %r2, %r3;", "add.s64 %rd1, %rd2, %rd3;"),
        (forms.LLVM, "  %3 = fadd float %1, %2", "  %3 = fadd fast float %1, %2"),
        (forms.CUDA, "#pragma unroll\nfor (;;)", "#pragma unroll 1\nfor (;;)"),
    ],
)
def test_what_has_an_effect_stays(kind: forms.Kind, text: str, other: str) -> None:
    """Operands, types and pragmas are no noise."""
    assert forms.normal(kind, text) != forms.normal(kind, other)


def test_normal_form_has_the_lines_of_the_shown_text() -> None:
    """A line that differs is shown with the author's names."""
    text = "#loc\n%total = add %x loc(#loc1)\n\nstore %total\n"
    shown, normal = forms.cleaned(forms.MLIR, text), forms.normal(forms.MLIR, text)
    assert shown.splitlines()[1:] == ["%total = add %x", "store %total"]
    assert len(shown.splitlines()) == len(normal.splitlines())
