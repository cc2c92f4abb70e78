"""Mutated texts of kernels: each is refused with a sentence, or parsed, checked and proved anew.

    python -m benchmarks.reliability.ir_text --runs 20000 --jobs 16 -o out.json

Seed n gives the same mutant each time: `--seed n --runs 1 --jobs 1`.
"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

from tileprof import ir
from tileprof.compiler.untrusted import prove_anew

from .mutants import Mutate, Read, flipped, main_of, rearranged, spliced

__all__ = ["LINES", "POOL", "TOKEN", "kept", "main", "prepare"]

TOKEN = re.compile(r'\s+|%?\w[\w.]*|"(?:[^"\\]|\\.)*"|.', re.DOTALL)
CORPUS = Path(__file__).parents[2] / "tests" / "data" / "fuzz" / "ir"
POOL = [
    *("0", "1", "-1", "9223372036854775807", "18446744073709551616", "1e999", "nan", "1" * 5000),
    *("{", "}", "(", ")", "[", "]", "<", ">", ",", ":", "=", "_", "[" * 200, "if " * 50),
    *("true", "none", '"a"', '"\\ud800"', "{in_bounds = true}", "index", "float32", "token"),
    *("global<4, float32>", "shared<0, int8>", "local<1, bool>", "%c0", "%x", "%0", "%1"),
    *("load", "store", "view", "reinterpret", "alloc local", "copy", "gemm", "reduce sum", "mark"),
    *("launch", "parallel", "for serial", "while", "yield", "break", "async_copy", "record begin"),
]

"""Tokens that a text need not have of its own."""
LINES = [
    *("break", "continue", "yield []", "yield [%0]", "mark {state = 0}", "fence", "print done _"),
    *(
        "record begin {site = 0}",
        "copy %A, %A",
        "fill %x, %0",
        "launch [%0] {threads = [32]} {",
        "}",
    ),
    *("parallel [%0] body(%i: index) {", "scope softmax body {", "} otherwise {", "if %0 then {"),
    *("for serial %0, %0, %0 body(%k: index) {", "for persistent %0, %0, %0 body(%k: index) {"),
    *("while condition {", "%q = alloc global {shape = [4]} : global<4, float32>", 'site 0 op "a"'),
    *("%q = alloc shared {shape = [4], offset = 4} : shared<4, float32>", "state 0 in 0 from 1"),
    *(
        "%q = alloc local {shape = [99999999]} : local<99999999, float32>",
        "%q = constant 1 : uint8",
    ),
    *("%q = view %A, [%0] {sizes = [4]} : global<4, float32>", "%q = constant 300 : int8"),
    *("%q = reinterpret %A {shape = [4]} : global<4, float32>", "gemm %A, %A, %A"),
]
"""Lines that a text need not have of its own."""


def kept() -> list[str]:
    """Return the texts that mutants are made from."""
    return [path.read_text() for path in sorted(CORPUS.glob("*.ir"))]


def prepare() -> tuple[Mutate, Read]:
    """How a mutant is made, and how it is read."""
    held = kept()
    tokens = [TOKEN.findall(text) for text in held]
    words = sorted({each for text in tokens for each in text if each.strip()})

    def mutate(draw: random.Random) -> Any:
        at = draw.randrange(len(held))
        if not draw.randrange(5):
            return flipped(held[at].encode(), draw).decode("utf-8", "replace")
        if not draw.randrange(4):
            return rearranged(held[at], LINES, draw)
        pool = POOL if draw.randrange(2) else words
        return "".join(spliced(tokens[at], pool, draw))

    def read(text: Any, draw: random.Random) -> str:
        parsed = ir.parse(text)
        # Kernels with measured sites, which no file may hold, are verified too.
        list(ir.problems(parsed))
        kernel = prove_anew(parsed)
        # What was read has a text that reads as the same.
        shown = ir.print_kernel(kernel)
        assert ir.print_kernel(ir.parse(shown)) == shown
        return "read"

    return mutate, read


def main(argv: list[str] | None = None) -> dict[str, Any]:
    """Run the campaign of a command line."""
    return main_of("ir_text", prepare, argv)


if __name__ == "__main__":
    main()
