"""Write docs/tilelang-libraries.md from the results of `tilelang_suites.py`.

    python benchmarks/page_suites.py

Each `benchmarks/results/suite-*.json` is a section of the page: what of a library's own tests
passes, what became of each of its kernels, and what stands outside and why.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
OUTPUT = HERE.parent / "docs" / "tilelang-libraries.md"
OUTCOMES = ("passed", "refused", "failed", "too long", "skipped")
_OUTSIDE = (
    (r"float4_e2m1fn|smaller than a byte", "elements of 4 bits are no element type: two of them "
     "lie in a byte of `uint8`, and a kernel takes them apart by shifts"),
    (r"operation `ptr`", "tensors behind addresses that a kernel reads (`T.ptr`, `T.make_tensor`): "
     "what they may touch cannot be checked, and no other device has these addresses"),
    (r"barriers of a kernel cannot be checked", "warp groups that hand over tiles by barriers of "
     "their author's: an order in which they cannot wait for one another is looked for before the "
     "kernel runs, and here a loop around them goes on for as long as a tensor says"),
)  # fmt: skip
"""Reasons that stand outside of the language: a pattern of the error, and why."""
_ROUNDING = (
    (r"out_save mismatch: \d\.\d+e-10", "a sum of products in another order changes the last bits "
     "of some bfloat16 results; the test's bound of 2e-10 is for more tokens than these"),
    (r"Tensor values are not equal: x\.shape=torch\.Size\(\[(288, 128|1024, 4096|608, 2048)\]\)",
     "exponentials of this device and of PyTorch are rounded differently, and the test wants equal "
     "bits: 172 of 36,864, 550 of 131,072 and 680 of 77,824 float32 scales differ by up to 4e-7 of "
     "their value, and 1 of 4,194,304 and 1 of 1,245,184 bfloat16 gradients by 0.7 %"),
)  # fmt: skip
"""Failed comparisons that are rounding: a pattern of the error, and what was measured."""


def page(libraries: Sequence[dict[str, Any]]) -> str:
    """Return the page."""
    total = Counter[str]()
    for each in libraries:
        total.update(_counts(each["files"].values()))
    return "\n".join([
        "# Libraries written in TileLang",
        "",
        "The test suites of libraries that others wrote in TileLang, run on tileprof as they are:"
        " `tilelang.language` is `tileprof.lang`, nothing else in a kernel or a test is changed,"
        " and tensors that ask for a GPU are on the CPU. What libraries need of `tilelang` outside"
        " of its language (autotuning, targets, configuration keys) is stood in for. Sizes are"
        " those of the library unless a section says otherwise. Where a repository has no tests of"
        " its kernels that run without its other parts, those of `benchmarks/collections` call its"
        " functions and compare with PyTorch. Made by",
        "",
        "```text",
        "python benchmarks/tilelang_suites.py CHECKOUT --compile sm_90a -o RESULTS",
        "python benchmarks/tilelang_collections.py FOLDER --compile sm_90a -o RESULTS",
        "python benchmarks/page_suites.py",
        "```",
        "",
        "    passed     ran to its end",
        "    refused    tileprof raised an error of its own for the author of the kernel",
        "    failed     another error, or a result that the test does not accept",
        "    too long   was stopped after a time that the section names",
        "    skipped    by the library itself",
        "",
        f"In all: {_shown(total)}.",
        "",
        *(line for each in libraries for line in section(each)),
    ])  # fmt: skip


def _counts(files: Any) -> Counter[str]:
    counts = Counter[str]()
    for each in files:
        counts.update(each["counts"])
        counts["not tried"] += each["left_out"]
    return counts


def _shown(counts: Counter[str]) -> str:
    parts = [f"{counts[o]} {o}" for o in (*OUTCOMES, "not tried") if counts[o]]
    return ", ".join(parts) or "no tests"


def section(library: dict[str, Any]) -> Iterator[str]:
    """Yield the lines about one library."""
    files = [library["files"][name] for name in sorted(library["files"])]
    yield f"## {library['library']}"
    yield ""
    each = f"at most {library['each']} cases of each test function" if library["each"] else (
        "all cases of each test function"
    )  # fmt: skip
    setup = f"`benchmarks/suites/{library['setup']}`" if library["setup"] else ""
    sizes = f", after {setup}, which says what is smaller or stood in for" if setup else ""
    yield (
        f"Commit `{library['commit']}`, run on {library['date']} on the {library['device']} "
        f"device: {each}{sizes}; a test is stopped after {library['limit_s']:g} s."
    )
    yield ""
    yield f"{_shown(_counts(files)).capitalize()}."
    yield ""
    yield "| tests | run | passed | refused | failed | too long | not tried | |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for file in files:
        counts = file["counts"]
        numbers = [file["run"], *(counts[o] for o in OUTCOMES[:4]), file["left_out"]]
        yield f"| `{file['path']}` | {' | '.join(map(str, numbers))} | {_reasons(file)} |"
    yield ""
    yield from _kernels(files)
    yield from _named(files, "refused", "Outside:", _OUTSIDE)
    yield from _named(files, "failed", "Failed by rounding:", _ROUNDING)


def _reasons(file: dict[str, Any]) -> str:
    found = []
    for reason, (count, _) in file["details"].items():
        if not reason.startswith(("skipped", "too long")):
            text = reason.replace("|", "\\|").replace("\n", " ")
            found.append(f"{count} {text}" if len(text) < 200 else f"{count} {text[:200]}…")
    return "; ".join(found)


def _kernels(files: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the table of kernels: tests that launched each, and what a GPU's compiler made of it.

    A kernel with several variants has a row for the worst of each target.
    """
    rows: dict[str, dict[str, Any]] = {}
    for file in files:
        for name, held in file["kernels"].items():
            row = rows.setdefault(name, {"ran": 0, "passed": 0, "targets": {}})
            row["ran"] += held["ran"]
            row["passed"] += held["passed"]
            for target, variants in held["targets"].items():
                row["targets"].setdefault(target, []).extend(variants)
    if not rows:
        return
    yield (
        "Each kernel: the tests in which it ran and how many of them passed, and what became of it "
        "when it was compiled without a GPU; where its arguments were small, it ran on the emulated"
        " GPU too and was compared with what the tests saw. Registers and spilled bytes are the "
        "most of its variants."
    )
    yield ""
    yield "| kernel | tests | passed | target | | registers | spilled bytes | products | emulated |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for name in sorted(rows):
        row = rows[name]
        for target, variants in sorted(row["targets"].items()) or [("", [])]:
            yield f"| `{name}` | {row['ran']} | {row['passed']} | {_on(target, variants)} |"
    yield ""


def _on(target: str, variants: Sequence[dict[str, Any]]) -> str:
    """Return the cells about a kernel for one target."""
    if not variants:
        return f"{target} | | | | | "
    order = ("compiles", "refused", "fails")
    worst = max(variants, key=lambda v: order.index(v["status"]))
    status = worst["status"] + (f": {worst['detail']}" if worst["detail"] else "")
    products = ", ".join(sorted({c for v in variants for c in v["choices"]}))
    emulated = Counter(v["emulated"] for v in variants if v["emulated"])
    parts = []
    if agree := emulated.pop("agrees", 0):
        parts.append(f"{agree} agree" if agree > 1 else "agrees")
    parts += [f"{n} × {text}" if n > 1 else text for text, n in emulated.items()]
    registers = max(v["registers"] for v in variants)
    spills = max(v["spills"] for v in variants)
    return f"{target} | {status} | {registers} | {spills} | {products} | {'; '.join(parts)}"


def _named(
    files: Sequence[dict[str, Any]], outcome: str, title: str, known: Sequence[tuple[str, str]]
) -> Iterator[str]:
    """Yield the known reasons for an outcome, with the number of tests that meet each."""
    met = Counter[str]()
    for file in files:
        for reason, (count, _) in file["details"].items():
            for pattern, why in known:
                if reason.startswith(outcome) and re.search(pattern, reason):
                    met[why] += count
    if met:
        yield title
        yield ""
        for why, count in met.most_common():
            yield f"- {count} test{'s' * (count > 1)}: {why}."
        yield ""


def results(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """Return the results of each library, by name."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("suite-*.json"))]
    return sorted(found, key=lambda held: str(held["library"]).lower())


def main() -> int:
    """Write the page."""
    OUTPUT.write_text(page(results()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
