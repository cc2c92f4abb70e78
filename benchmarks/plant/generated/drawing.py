"""Draw splits: a seed deals families and operators to development and to test.

    python -m plant.generated.drawing --seed 1          in `benchmarks`: writes `splits/dev-1.json`
    python -m plant.generated.drawing --seed 1 --test   draws the test split and freezes it

In: a seed.  Out: names of mutants; tile mutants that do not compile are left out.

No family of the test split is in development, and operators that are held out are in no case of
development. A test split is frozen as it is drawn: with the hash of each case and that of the
analyzer.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[3]))

from .families import FAMILIES, Family
from .freezing import analyzer_hash, split_record
from .mutants import OPERATORS, Mutant, mutants_of

__all__ = ["SPLITS", "Deal", "deal", "drawn", "read"]

SPLITS = Path(__file__).parent / "splits"
IN_DEVELOPMENT = {"tile": 6, "triton": 7}
"""New families that development gets, by language."""
OLDER = 6
"""Families of older splits in a development split."""
HELD_OUT = 10
"""Operators that development does not get."""
PER_FAMILY = {"dev": 5, "test": 8}
"""Defects of each family at most; one decoy comes to them, and the kernel as it is."""


@dataclass(frozen=True)
class Deal:
    """Families and operators that a seed gives to development and to test."""

    development: tuple[str, ...]
    test: tuple[str, ...]
    held_out: tuple[str, ...]
    """Operators of the test split alone."""


def deal(seed: int) -> Deal:
    """Deal families and operators."""
    chance = random.Random(f"deal {seed}")
    development, test = [], []
    for language, count in IN_DEVELOPMENT.items():
        new = [f.name for f in FAMILIES.values() if f.language == language and f.origin != "older"]
        chance.shuffle(new)
        development += new[:count]
        test += new[count:]
    older = [family.name for family in FAMILIES.values() if family.origin == "older"]
    development += chance.sample(older, OLDER)
    defects = [each.name for each in OPERATORS.values() if each.kind == "defect"]
    held_out = chance.sample(defects, HELD_OUT)
    return Deal(tuple(development), tuple(sorted(test)), tuple(sorted(held_out)))


def drawn(seed: int, part: str) -> tuple[Mutant, ...]:
    """Draw the mutants of a development or test split, in an order that mixes families."""
    dealt = deal(seed)
    names = dealt.test if part == "test" else dealt.development
    closed = () if part == "test" else dealt.held_out
    found = []
    for name in names:
        chance = random.Random(f"draw {seed} {name}")
        found += _of_family(FAMILIES[name], chance, PER_FAMILY[part], closed)
    random.Random(f"order {seed}").shuffle(found)
    return tuple(found)


def _of_family(
    family: Family, chance: random.Random, most: int, closed: Iterable[str]
) -> list[Mutant]:
    """Pick sites of as many operators as there are, then second sites, and a decoy."""
    by_operator: dict[str, list[Mutant]] = {}
    decoys = []
    for mutant in mutants_of(family):
        if mutant.operator.kind == "decoy":
            decoys.append(mutant)
        elif mutant.operator.name not in closed:
            by_operator.setdefault(mutant.operator.name, []).append(mutant)
    piles = list(by_operator.values())
    chance.shuffle(piles)
    for pile in piles:
        chance.shuffle(pile)
    rounds = [pile[at] for at in range(2) for pile in piles if at < len(pile)]
    return rounds[:most] + (chance.sample(decoys, 1) if decoys else [])


def refused(mutants: Iterable[Mutant]) -> dict[str, str]:
    """Compile tile mutants for an H200, and return why some of them do not compile."""
    import tempfile

    from tileprof.compiler.cuda.pipeline import compile_cuda
    from tileprof.compiler.cuda.target import find_target
    from tileprof.errors import TileprofError

    from . import problems

    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        for at, mutant in enumerate(each for each in mutants if each.family.language == "tile"):
            path = Path(scratch) / str(at) / mutant.family.path.name
            try:
                module = problems.imported(mutant.family, mutant.text, path)
                kernel = getattr(module, mutant.family.entry).compile(**mutant.shape)
                compile_cuda(kernel.program.kernel, find_target("sm_90a"), None)
            except TileprofError as error:
                found[mutant.name] = str(error).splitlines()[0].removeprefix(f"{path}:")
    return found


def read(name: str) -> tuple[dict[str, Any], tuple[Mutant, ...]]:
    """Read a split and make its mutants.

    Raises:
        KeyError: an operator has no such site any more.
    """
    record: dict[str, Any] = json.loads((SPLITS / f"{name}.json").read_text())
    wanted = dict.fromkeys(record["cases"])
    by_name = {
        mutant.name: mutant
        for family in dict.fromkeys(each.split("/")[0] for each in wanted)
        for mutant in mutants_of(FAMILIES[family])
    }
    return record, tuple(by_name[each] for each in wanted)


def main() -> int:
    """Draw, and write a file where there is none."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--test", action="store_true", help="draw the test split and freeze it")
    parser.add_argument("--unchecked", action="store_true", help="do not compile tile mutants")
    args = parser.parse_args()
    part = "test" if args.test else "dev"
    path = SPLITS / f"{part}-{args.seed}.json"
    if path.exists():
        sys.exit(f"{path} is there: a split is drawn once")
    mutants = drawn(args.seed, part)
    wrong = {} if args.unchecked else refused(mutants)
    kept = [each for each in mutants if each.name not in wrong]
    record = split_record(f"{part}-{args.seed}", part, kept)
    record |= {"seed": args.seed, "held_out": deal(args.seed).held_out, "refused": wrong}
    if args.test:
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
        record |= {"analyzer": analyzer_hash(), "frozen": now}
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"{path}: {len(record['cases'])} mutants of {len(record['families'])} families")
    return 0


if __name__ == "__main__":
    sys.exit(main())
