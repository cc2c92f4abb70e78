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

from .mutants import Mutate, Read, flipped, main_of, spliced

__all__ = ["POOL", "TOKEN", "main", "prepare", "texts"]

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


def texts() -> list[str]:
    """The kept texts."""
    return [path.read_text() for path in sorted(CORPUS.glob("*.ir"))]


def prepare() -> tuple[Mutate, Read]:
    """How a mutant is made, and how it is read."""
    held = texts()
    tokens = [TOKEN.findall(text) for text in held]
    words = sorted({each for text in tokens for each in text if each.strip()})

    def mutate(draw: random.Random) -> Any:
        at = draw.randrange(len(held))
        if not draw.randrange(5):
            return flipped(held[at].encode(), draw).decode("utf-8", "replace")
        pool = POOL if draw.randrange(2) else words
        return "".join(spliced(tokens[at], pool, draw))

    def read(text: Any, draw: random.Random) -> str:
        kernel = prove_anew(ir.parse(text))
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
