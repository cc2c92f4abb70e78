"""The C++ text: readable, mapped to Python lines, the same each time, no trace of what is off."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.cpu.support import kernel, source
from tests.verified import parse
from tileprof import ir
from tileprof.compiler.codegen import emit
from tileprof.instrument import insert, strip

SCALE = """kernel @scale(%x: global<n, float32>, %y: out global<n, bfloat16>)
    symbols(%n) loc("scale.py":3:0-3:5 "scale") {
  %c128 = constant 128 : index
  %c127 = constant 127 : index
  %0 = add %n, %c127 : index
  %1 = floordiv %0, %c128 : index
  launch [%1] {threads = [128]} loc("scale.py":4:4-4:9 "scale") body(%bx: index) {
    parallel [%c128] loc("scale.py":5:8-5:9 "scale") body(%i: index) {
      %2 = mul %bx, %c128 : index
      %3 = add %2, %i : index
      %double = load %x, [%3] : float32 loc("scale.py":6:12-6:20 "scale")
      %4 = add %double, %double : float32 loc("scale.py":7:12-7:20 "scale")
      %5 = exp2 %4 : float32 loc("scale.py":7:12-7:20 "scale")
      %6 = cast %5 : bfloat16 loc("scale.py":7:12-7:20 "scale")
      store %6, %y, [%3] loc("scale.py":7:4-7:20 "scale")
    }
  }
}"""

MATMUL = """kernel @matmul(
    %A: global<256, 256, float32>, %B: global<256, 256, float32>, %C: global<256, 256, float32>) {
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c2 = constant 2 : index
  %c4 = constant 4 : index
  %c64 = constant 64 : index
  %c128 = constant 128 : index
  %zero = constant 0.0 : float32
  launch [%c2, %c2] {threads = [128]} body(%bx: index, %by: index) {
    %A_shared = alloc shared {shape = [128, 64]} : shared<128, 64, float32>
    %B_shared = alloc shared {shape = [64, 128]} : shared<64, 128, float32>
    %C_local = alloc fragment {shape = [128, 128]} : fragment<128, 128, float32>
    fill %C_local, %zero
    %0 = mul %by, %c128 : index
    %1 = mul %bx, %c128 : index
    for pipelined %c0, %c4, %c1 {num_stages = 2} body(%ko: index) {
      %2 = mul %ko, %c64 : index
      %3 = view %A, [%0, %2] {sizes = [128, 64]} : global<128, 64, float32>
      copy %3, %A_shared
      %4 = view %B, [%2, %1] {sizes = [64, 128]} : global<64, 128, float32>
      copy %4, %B_shared
      gemm %A_shared, %B_shared, %C_local
    }
    %5 = view %C, [%0, %1] {sizes = [128, 128]} : global<128, 128, float32>
    copy %C_local, %5
  }
}"""


def test_elementwise_kernel(golden: Callable[..., None]) -> None:
    """A loop without guards for whole blocks, one with guards for the last; every line of C++ says
    its line of Python."""
    golden(source(SCALE).text)


def test_matmul_kernel(golden: Callable[..., None]) -> None:
    """Tile ops are calls of templates with everything that is known as numbers."""
    golden(source(MATMUL).text)


def test_the_same_kernel_gives_the_same_text() -> None:
    """Emission depends on nothing but the kernel: a cache by content works."""
    assert source(MATMUL).text == source(MATMUL).text == emit(ir.parse(MATMUL)).text


SCOPED = kernel(
    "scoped",
    ["%x: global<4, float32>"],
    """    %n = constant 4 : index
    scope "outer" body {
      parallel [%n] body(%i: index) {
        %v = load %x, [%i] : float32
        %w = add %v, %v : float32
        store %w, %x, [%i]
      }
    }""",
)


def test_measurement_that_is_off_leaves_no_trace() -> None:
    """With no records there is no clock, no buffer and no record layout in the text, and scopes
    change nothing; with records there is all of that."""
    scoped = parse(SCOPED)
    neutral = SCOPED.replace('    scope "outer" body {\n', "").replace(
        "      }\n    }\n  }", "    }\n  }"
    )
    text = emit(scoped).text
    lines = [line.strip() for line in neutral.splitlines()]
    assert not any(line.startswith("scope") for line in lines)
    assert text == source(neutral.replace("    }\n    }\n  }", "    }\n  }")).text
    assert not re.search(r"record|clock|time|Header|measure", text)
    measured = emit(insert(scoped, "scopes"))
    assert measured.measured
    assert measured.text.count("tp_record(worker, 0 * 2 + 0);") == 1
    assert measured.text.count("tp_record(worker, 0 * 2 + 1);") == 1
    assert emit(strip(insert(scoped, "scopes"))).text == text


def test_names_are_legal_and_distinct() -> None:
    """Names of the author survive unless they are C++ words, names of ours, or taken."""
    text = source(
        kernel(
            "int",
            ["%class: global<4, float32>", "%tp_copy: global<4, float32>"],
            """    %double = load %class, [%c0] : float32
    %é = add %double, %double : float32
    %v0 = add %é, %é : float32
    %v0_1 = add %v0, %é : float32
    store %v0_1, %tp_copy, [%c1]""".replace("é", "e_"),
        )
    ).text
    assert "float *const class_ = in.class_;" in text
    assert "float *const v_tp_copy = in.v_tp_copy;" in text
    assert "const float double_ = class_[0];" in text
    assert "v_tp_copy[1] = v0_1;" in text


def test_a_static_access_needs_no_guard() -> None:
    """Where the numbers already say that every access is inside, there is one loop; where they say
    that none can be proved, one guarded loop."""
    body = """    %n = constant {} : index
    parallel [%n] body(%i: index) {{
      %v = load %x, [%i] : float32
      store %v, %y, [%i]
    }}"""
    params = ["%x: global<64, float32>", "%y: global<64, float32>"]
    inside = source(kernel("fits", params, body.format(64))).text
    assert "y[i] = v;" in inside
    assert "i < 64 ?" not in inside
    outside = source(kernel("passes", params, body.format(65))).text
    assert "i < 64 ? x[i] : 0.0f" in outside
    assert "if (i < 64) y[i]" in outside
    assert "else" not in outside


def test_the_whole_extent_of_a_symbol_is_inside() -> None:
    """A loop over n of a tensor with n elements needs neither condition nor guard."""
    text = source(
        kernel(
            "whole",
            ["%x: global<n, float32>"],
            """    parallel [%n] body(%i: index) {
      %v = load %x, [%i] : float32
      store %v, %x, [%i]
    }""",
            symbols="%n",
        )
    ).text
    assert "if (" not in text
