"""Run kernels of collections that users of TileLang published on tileprof, and count the results.

    python benchmarks/tilelang_collections.py FOLDER [--only NAME] [--compile sm_90a] -o OUT

FOLDER holds checkouts named `owner+name`.  A checkout is copied, so that nothing in it changes; one
without tests of its kernels gets those of `benchmarks/collections`, which call its own functions.
`tilelang_suites.py` runs them and writes one file of results a collection, `OUT/NAME.json`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]


@dataclass(frozen=True)
class Collection:
    """Where a collection is, and how its tests are run."""

    checkout: str
    """Folder of the checkout."""
    part: str = ""
    """Folder inside the checkout whose tests are run; empty for all of it."""
    tests: str = ""
    """File of `benchmarks/collections` with tests; empty where the collection has its own."""
    setup: str = ""
    """File of `benchmarks/collections` that each process executes first."""
    limit: float = 120.0
    """Longest time of one test, in seconds."""
    whole: tuple[str, ...] = ("tests",)
    """Test files and folders to run."""


_LEARNING = "impecme+Tilelang-Learning"
_LAB = "projects/tilelang_three_stage_lab"
_STARTER = "projects/tilelang_starter_three_stage_lab"
COLLECTIONS: dict[str, Collection] = {
    "tilelang-bench": Collection("shuminghu+tilelang-bench", tests="tilelang_bench.py"),
    "tilelang-benchmark": Collection("tile-ai+tilelang-benchmark", tests="tilelang_benchmark.py"),
    "qwen-in-tilelang": Collection("ppppqp+qwen-in-tilelang", setup="asks_for_gpu.py"),
    "learning": Collection(_LEARNING, setup="asks_for_gpu.py"),
    "learning-lab": Collection(_LEARNING, _LAB, setup="asks_for_gpu.py"),
    "learning-starter": Collection(_LEARNING, _STARTER, setup="asks_for_gpu.py"),
    "deepseek-v32": Collection(
        "deepseek-ai+DeepSeek-V3.2-Exp", "inference", tests="deepseek_v32.py"
    ),
    "flash-linear-attention": Collection(
        "fla-org+flash-linear-attention",
        tests="flash_linear_attention.py",
        setup="hopper.py",
        whole=("tests/test_flash_linear_attention.py",),
    ),
    "slime": Collection("THUDM+slime", tests="sparse_models.py"),
    "miles": Collection("radixark+miles", tests="sparse_models.py"),
}


def prepared(held: Collection, folder: Path, scratch: Path) -> Path:
    """Return a copy of what is run of a collection, with tests."""
    source = folder / held.checkout
    if not source.is_dir():
        raise SystemExit(f"there is no {source}")
    root = scratch / held.checkout
    shutil.copytree(source / held.part, root, ignore=shutil.ignore_patterns(".git"))
    if (source / "COMMIT").exists():
        shutil.copyfile(source / "COMMIT", root / "COMMIT")
    if held.tests:
        (root / "tests").mkdir(exist_ok=True)
        shutil.copyfile(HERE / "collections" / held.tests, root / "tests" / f"test_{held.tests}")
    return root


def named(held: Collection) -> str:
    """Return the name of a collection, with the folder of it that was run."""
    return "/".join([held.checkout.replace("+", "/"), *([held.part] if held.part else [])])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the collections one after the other; 1 where a test of one failed or was refused."""
    import tilelang_suites

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="folder with the checkouts")
    parser.add_argument("--only", action="append", choices=COLLECTIONS, default=[])
    parser.add_argument("-k", dest="expression", default="", help="as pytest's -k")
    parser.add_argument("--compile", default="", help="GPU targets, separated by commas")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the results")
    args = parser.parse_args(argv)
    args.output.mkdir(parents=True, exist_ok=True)
    code = 0
    for name in args.only or COLLECTIONS:
        held = COLLECTIONS[name]
        with tempfile.TemporaryDirectory() as scratch:
            root = prepared(held, args.folder, Path(scratch))
            print(f"{name}:", flush=True)
            given = ["--tests", *held.whole, "--limit", str(held.limit), "-k", args.expression]
            if held.setup:
                given += ["--setup", str(HERE / "suites" / held.setup)]
            given += ["--compile", args.compile, "-o", str(args.output / f"{name}.json")]
            code |= tilelang_suites.main([str(root), *given])
        result = args.output / f"{name}.json"
        facts = json.loads(result.read_text())
        facts["library"] = named(held)
        result.write_text(json.dumps(facts, indent=1) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
