"""Run TileLang's own documentation and examples on tileprof, and write the table of what works.

    python benchmarks/tilelang_examples.py CHECKOUT [--device interpreter|cpu] [--only TEXT]
    python benchmarks/tilelang_examples.py CHECKOUT --compile sm_90a,sm_80 [--only TEXT]

Without `--device`, on the interpreter, and what runs there on the cpu device too.  With `--compile`
every kernel is compiled for GPUs, and what was launched on the interpreter is run again on the
emulated machine of the tests (`tilelang_compiling.py`); this writes its own section of the page.

CHECKOUT is a checkout of TileLang outside of this repository.  Nothing of it is changed or copied:
its modules are executed with `tilelang.language` standing for `tileprof.lang` (`tilelang_host.py`),
which is what changing the import lines does.  Each example runs in a process of its own.

    passes     ran, and agreed with the example's own reference
    runs       ran to its end; the example compares with nothing
    traces     was compiled for arguments made up here, not run
    outside    needs something that is no part of the core; the first such thing is named
    fails      should work, and does not
    –          has no kernel, or none that could be given arguments here
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

from examples_page import section_of, with_section
from tilelang_cases import CONTINUED, EXAMPLES, FRAGMENTS
from tilelang_compiling import SECTION, attempt_compiled, section
from tilelang_running import Item, Result, attempt

OUTPUT = Path(__file__).parent.parent / "docs" / "tilelang-examples.md"
LIMIT_S = 300
ORDER = ("passes", "runs", "traces", "outside", "fails", "–")


# -- what there is


def examples(checkout: Path) -> Iterator[Item]:
    """Every example file that has to do with TileLang, once for each way in which it is run."""
    for path in sorted((checkout / "examples").rglob("*.py")):
        name = str(path.relative_to(checkout / "examples"))
        text = path.read_text()
        if not _is_about_kernels(text) or path.name.startswith(("test_", "regression_")):
            continue
        for case in EXAMPLES.get(name, (None,)):
            label = f" ({case.label})" if case and case.label else ""
            yield Item(f"{name}{label}", path, text, case)


def fences(checkout: Path) -> Iterator[Item]:
    """Every python fence of the documentation, those of one page after each other."""
    for path in [checkout / "README.md", *sorted((checkout / "docs").rglob("*.md"))]:
        text = path.read_text()
        page = str(path.relative_to(checkout))
        seen: dict[int, str] = {}
        for found in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, found.start(1)) + 1
            name = f"{page}:{line}"
            before = seen.get(CONTINUED.get(name, 0), "")
            blank = "\n" * (line - 1 - before.count("\n"))
            seen[line] = f"{before}{blank}{found[1]}"
            yield Item(name, path, seen[line], FRAGMENTS.get((page, line)))


def _is_about_kernels(text: str) -> bool:
    return "tilelang" in text and re.search(r"\bT\.\w", text) is not None


# -- all of them


def apart(work: Callable[..., Any], *args: Any, limit: float = LIMIT_S) -> Any:
    """What `work` gives in a forked process; a text where it dies or takes too long."""
    here, there = (context := get_context("fork")).Pipe(duplex=False)
    process = context.Process(target=lambda: there.send(work(*args)))
    process.start()
    there.close()
    try:
        made = here.recv() if here.poll(limit) else f"longer than {limit:g} s"
    except EOFError:
        made = "the process died"
    process.kill()
    process.join()
    return made


def collect(items: Sequence[Item]) -> list[Result]:
    """Try each item in a process of its own."""
    results = []
    for item in items:
        made = apart(attempt, item)
        results.append(made if isinstance(made, Result) else Result(item.name, "fails", made))
        print(f"{results[-1].status:8} {item.name}  {results[-1].detail}", flush=True)
    return results


def compared(items: Sequence[Item], results: Sequence[Result]) -> list[Result]:
    """Run what ran on the interpreter on the cpu device."""
    ran = {r.name for r in results if r.status in ("passes", "runs")}
    os.environ["TILEPROF_DEVICE"] = "cpu"
    again = {r.name: r for r in collect([i for i in items if i.name in ran])}
    made = []
    for result in results:
        other = again.get(result.name)
        detail = result.detail
        if other is not None and other.status != result.status:
            detail = f"cpu: {other.detail}"
        made.append(replace(result, detail=detail, on_cpu=other.status if other else ""))
    return made


def table(results: Sequence[Result]) -> str:
    """The rows of a table, what passes first."""
    rows = [f"| `{r.name}` | {r.status} | {r.on_cpu} | {r.detail} |" for r in _sorted(results)]
    return "\n".join(["| what | interpreter | cpu | |", "| --- | --- | --- | --- |", *rows])


def _sorted(results: Sequence[Result]) -> list[Result]:
    return sorted(results, key=lambda r: (ORDER.index(r.status), r.name))


def summary(results: Sequence[Result]) -> str:
    """How many of each."""
    counts = Counter(r.status for r in results)
    return ", ".join(f"{counts[s]} {s}" for s in ORDER if counts[s] and s != "–")


def report(commit: str, pages: Sequence[Result], files: Sequence[Result]) -> str:
    """The page of the documentation."""
    shown = [r for r in pages if r.status != "–"]
    without = len(pages) - len(shown)
    return "\n".join([
        "# TileLang's documentation and examples",
        "",
        f"What of TileLang at commit `{commit}` works here, on {datetime.date.today()}. Made by",
        "",
        "```text",
        "python benchmarks/tilelang_examples.py CHECKOUT",
        "```",
        "",
        "which executes the checkout's files with `tileprof.lang` in the place of "
        "`tilelang.language`; nothing else in a kernel is changed. Tensors that ask for a GPU are "
        "on the CPU, and sizes are small. What examples need around their kernels (autotuning, "
        "`get_profiler`, configuration keys) is stood in for by the script, and named.",
        "",
        *(line for line in textwrap.dedent(__doc__ or "").splitlines() if line.startswith("    ")
          and line.strip().split()[0] in ORDER),
        "",
        f"## Examples: {summary(files)}",
        "",
        table(files),
        "",
        f"## Fences of the documentation: {summary(shown)}",
        "",
        f"{without} more fences have no kernel: settings, host code, outlines.",
        "",
        table(shown),
        "",
    ])  # fmt: skip


def compile_all(items: Sequence[Item], targets: Sequence[str], is_whole: bool) -> int:
    """Compile the kernels of all items and write the section; 1 where something fails."""
    os.environ["TILEPROF_DEVICE"] = "interpreter"
    rows = []
    for item in items:
        made = apart(attempt_compiled, item, targets)
        if isinstance(made, str):
            print(f"fails    {item.name}  {made}", flush=True)
        for each in made if isinstance(made, list) else ():
            rows.append((item.name, each))
            print(f"{each.status:8} {each.target} {item.name} {each.kernel}  {each.detail}"
                  f"  {each.emulated}", flush=True)  # fmt: skip
        if is_whole:
            page = OUTPUT.read_text().partition(f"\n{SECTION}")[0]
            OUTPUT.write_text(f"{page}\n{section(rows)}")
    return int(any(each.status == "fails" for _, each in rows))


def commit_of(checkout: Path) -> str:
    """The commit of a checkout that has its history."""
    done = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "--short=12", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def main(argv: Sequence[str] | None = None) -> int:
    """Try everything and write the page; 1 where something fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--device", choices=("interpreter", "cpu"))
    parser.add_argument("--compile", help="GPU targets to compile for, separated by commas")
    parser.add_argument("--only", help="names with this text; no page is written")
    parser.add_argument("--commit", help="of a checkout without its history")
    parser.add_argument("--json", type=Path, help="write the results here too")
    args = parser.parse_args(argv)
    os.environ["TILEPROF_DEVICE"] = args.device or "interpreter"
    chosen = [
        [i for i in items if not args.only or args.only in i.name]
        for items in (list(fences(args.checkout)), list(examples(args.checkout)))
    ]
    # Imported once: the processes of the examples are copies of this one.
    import torch

    import tileprof

    assert tileprof.jit is not None
    torch.set_num_threads(1)
    if args.compile:
        items = [i for each in reversed(chosen) for i in each]
        return compile_all(items, args.compile.split(","), not args.only)
    pages, files = (collect(items) for items in chosen)
    if args.device is None:
        pages, files = (compared(i, r) for i, r in zip(chosen, (pages, files)))
    if args.json:
        args.json.write_text(json.dumps([[r.name, r.status, r.detail] for r in [*pages, *files]]))
    if not args.only and args.device is None:
        text = report((args.commit or commit_of(args.checkout))[:12], pages, files)
        before = OUTPUT.read_text()
        _, found, kept = before.partition(f"\n{SECTION}")
        OUTPUT.write_text(with_section(f"{text}{found}{kept}", section_of(before)))
    print(f"documentation: {summary(pages)}\nexamples: {summary(files)}")
    return int(any("fails" in (r.status, r.on_cpu) for r in [*pages, *files]))


if __name__ == "__main__":
    sys.exit(main())
