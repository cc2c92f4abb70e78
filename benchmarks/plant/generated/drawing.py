"""Draw splits: a seed deals families and operators to development and to test.

    python -m plant.generated.drawing --seed 1          in `benchmarks`: writes `splits/dev-1.json`
    python -m plant.generated.drawing --seed 1 --test   draws the test split and freezes it
    python -m plant.generated.drawing --seed 2 --test --without dev-1 test-1
                                        one of families that no case of these splits is of
    … --dry                             says what would be drawn, and writes nothing

In: a seed.  Out: names of mutants; tile mutants that do not compile are left out.

No family of the test split is in development, and operators that are held out are in no case of
development. After a test split has run, its families and operators are known; so a later one names
the splits before it, and has none of their families. Held out are then the operators that none of
them has. A test split is frozen as it is drawn: with the hash of each case and that of the
analyzer.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

sys.path.append(str(Path(__file__).parents[3]))

from .families import FAMILIES, FAULTS, Family
from .freezing import analyzer_hash, split_record
from .mutants import OPERATORS, Mutant, mutants_of

__all__ = ["SPLITS", "Deal", "all_of", "deal", "drawn", "read"]

SPLITS = Path(__file__).parent / "splits"
IN_DEVELOPMENT = {"tile": 6, "triton": 7}
"""New families that development gets, by language."""
OLDER = 6
"""Families of older splits in a development split."""
HELD_OUT = 10
"""Operators that development does not get."""
PER_FAMILY = {"dev": 5, "test": 8}
"""Defects of each family at most; one decoy comes to them, and the kernel as it is."""
UNTIMED = ("check-input",)
"""Operators that no later split draws: the host waits for what they ask, so no graph times them."""
_HELD_OUT_EACH = 3
"""Defects of held-out operators in each family of a split that is drawn without earlier ones: there
every new operator is held out, and by chance alone they would be as many as new operators are."""


@dataclass(frozen=True)
class Deal:
    """Families and operators that a seed gives to development and to test."""

    development: tuple[str, ...]
    test: tuple[str, ...]
    held_out: tuple[str, ...]
    """Operators of the test split alone."""


def deal(seed: int, without: Sequence[str] = ()) -> Deal:
    """Deal families and operators.

    Args:
        seed: what decides by chance; nothing is left to it where there are earlier splits.
        without: names of earlier splits, whose families and operators count as developed with.

    Raises:
        FileNotFoundError: there is no such split.
    """
    if without:
        return _rest(without)
    chance = random.Random(f"deal {seed}")
    development, test = [], []
    for language, count in IN_DEVELOPMENT.items():
        new = [each.name for each in _first_families() if each.language == language]
        chance.shuffle(new)
        development += new[:count]
        test += new[count:]
    older = [family.name for family in FAMILIES.values() if family.origin == "older"]
    development += chance.sample(older, OLDER)
    defects = [each.name for each in OPERATORS.values() if each.kind == "defect"]
    held_out = chance.sample(defects, HELD_OUT)
    return Deal(tuple(development), tuple(sorted(test)), tuple(sorted(held_out)))


def _first_families() -> list[Family]:
    """Return new families that a split without earlier ones has: all others are for later splits.

    So a draw for development cannot take what a test split is to have, and what a seed dealt before
    there were more families it deals still.
    """
    records = [json.loads(path.read_text()) for path in SPLITS.glob("*.json")]
    first = {name for each in records if "without" not in each for name in each["families"]}
    return [each for name, each in FAMILIES.items() if name in first and each.origin != "older"]


def _rest(without: Sequence[str]) -> Deal:
    """Give a test split every new family and, held out, every operator that no split has."""
    records = [_record(name) for name in without]
    known = {name for each in records for name in each["families"]}
    used = {name for each in records for name in each["held_out"]}
    used |= {case.split("/")[1] for each in records for case in each["cases"]}
    new = [each.name for each in FAMILIES.values() if each.origin != "older"]
    defects = [each.name for each in OPERATORS.values() if each.kind == "defect"]
    return Deal(
        tuple(sorted(known)), tuple(sorted(set(new) - known)), tuple(sorted(set(defects) - used))
    )


def drawn(
    seed: int, part: str, without: Sequence[str] = (), most: int | None = None
) -> tuple[Mutant, ...]:
    """Draw the mutants of a development or test split, in an order that mixes families.

    Args:
        seed: what decides which sites of which operators are drawn, and their order.
        part: `dev` or `test`.
        without: names of earlier splits, none of whose families is drawn.
        most: defects of a family at most; by default as `PER_FAMILY` says.
    """
    dealt = deal(seed, without)
    names = dealt.test if part == "test" else dealt.development
    closed = () if part == "test" else dealt.held_out
    count, taken = most or PER_FAMILY[part], Counter[str]()
    found = []
    for name in (each for each in names if each not in FAULTS):
        chance = random.Random(f"draw {seed} {name}")
        piles, decoys = _sites(FAMILIES[name], chance, closed)
        picked = _balanced(piles, dealt.held_out, taken) if without else _rounds(piles)
        taken.update(each.operator.name for each in picked[:count])
        found += picked[:count] + (chance.sample(decoys, 1) if decoys else [])
    random.Random(f"order {seed}").shuffle(found)
    return tuple(found)


Piles: TypeAlias = list[list[Mutant]]
"""Mutants of a family by operator, both in an order of chance."""


@cache
def all_of(name: str) -> tuple[Mutant, ...]:
    """Return the mutants of a family, made once: many splits are drawn from the same ones."""
    return tuple(mutants_of(FAMILIES[name]))


def _sites(
    family: Family, chance: random.Random, closed: Iterable[str]
) -> tuple[Piles, list[Mutant]]:
    """Return a family's defects, those of `closed` operators and faults left out, and decoys."""
    by_operator: dict[str, list[Mutant]] = {}
    decoys = []
    for mutant in all_of(family.name):
        if mutant.fault or mutant.operator.name in UNTIMED:
            continue
        if mutant.operator.kind == "decoy":
            decoys.append(mutant)
        elif mutant.operator.name not in closed:
            by_operator.setdefault(mutant.operator.name, []).append(mutant)
    piles = list(by_operator.values())
    chance.shuffle(piles)
    for pile in piles:
        chance.shuffle(pile)
    return piles, decoys


def _rounds(piles: Piles) -> list[Mutant]:
    """Order sites: as many operators as there are, then second sites."""
    return [pile[at] for at in range(2) for pile in piles if at < len(pile)]


def _balanced(piles: Piles, held_out: Iterable[str], taken: Mapping[str, int]) -> list[Mutant]:
    """Order sites: some operators that are held out, the others, then the rest of the former.

    Those that fewer families had so far come first. Otherwise an operator that few kernels have
    sites of would hardly be in a split.
    """
    piles = sorted(piles, key=lambda pile: taken.get(pile[0].operator.name, 0))
    new = [pile for pile in piles if pile[0].operator.name in held_out]
    picked = [pile[0] for pile in new[:_HELD_OUT_EACH]]
    picked += _rounds([pile for pile in piles if pile not in new])
    return picked + [pile[0] for pile in new[_HELD_OUT_EACH:]]


def refused(mutants: Iterable[Mutant]) -> dict[str, str]:
    """Compile tile mutants for an H200, and return why some of them do not compile.

    The binaries stay in the cache, so that a second drawing takes less than a second or two for
    each.
    """
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
                made = compile_cuda(kernel.program.kernel, find_target("sm_90a"), None)
                assert made.cubin
            except TileprofError as error:
                found[mutant.name] = str(error).splitlines()[0].removeprefix(f"{path}:")
    return found


def _record(name: str) -> dict[str, Any]:
    """Return what a split's file says.

    Raises:
        FileNotFoundError: there is no such split.
    """
    path = SPLITS / f"{name}.json"
    if not path.exists():
        there = ", ".join(sorted(each.stem for each in SPLITS.glob("*.json")))
        raise FileNotFoundError(f"there is no split {name}; there are {there}")
    record: dict[str, Any] = json.loads(path.read_text())
    return record


def read(name: str) -> tuple[dict[str, Any], tuple[Mutant, ...]]:
    """Read a split and make its mutants.

    Raises:
        KeyError: an operator has no such site any more.
    """
    record = _record(name)
    wanted = dict.fromkeys(record["cases"])
    by_name = {
        mutant.name: mutant
        for family in dict.fromkeys(each.split("/")[0] for each in wanted)
        for mutant in all_of(family)
    }
    return record, tuple(by_name[each] for each in wanted)


def _told(kept: Sequence[Mutant], held_out: Iterable[str], wrong: Mapping[str, str]) -> str:
    """Say what was drawn: by language, kind and operator, and what does not compile."""
    families = {each.family.name: each.family.language for each in kept}
    languages = Counter(families.values())
    defects = [each for each in kept if each.operator.kind == "defect"]
    new = Counter(each.operator.name for each in defects if each.operator.name in held_out)
    known = Counter(each.operator.name for each in defects if each.operator.name not in held_out)
    lines = [
        f"{len(families)} families: {_counted(languages)}",
        f"{len(kept)} mutants: {len(defects)} defects, {len(kept) - len(defects)} decoys",
        f"{new.total()} defects of {len(new)} operators held out: {_counted(new)}",
        f"{known.total()} defects of {len(known)} operators before: {_counted(known)}",
        *(f"left out, {name}: {why}" for name, why in wrong.items()),
    ]
    return "\n".join(lines)


def _counted(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counter.most_common())


def main(given: Sequence[str] | None = None) -> int:
    """Draw, and write a file where there is none."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--test", action="store_true", help="draw the test split and freeze it")
    parser.add_argument("--unchecked", action="store_true", help="do not compile tile mutants")
    parser.add_argument("--without", nargs="+", default=[], metavar="SPLIT",
                        help="earlier splits, none of whose families is drawn")  # fmt: skip
    parser.add_argument("--most", type=int, metavar="N", help="defects of a family at most")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    args = parser.parse_args(given)
    if args.without and not args.test:
        parser.error("--without needs --test: development has families of earlier splits")
    part = "test" if args.test else "dev"
    path = SPLITS / f"{part}-{args.seed}.json"
    if path.exists() and not args.dry:
        sys.exit(f"{path} is there: a split is drawn once")
    try:
        mutants = drawn(args.seed, part, args.without, args.most)
    except FileNotFoundError as error:
        parser.error(f"--without: {error}")
    wrong = {} if args.unchecked else refused(mutants)
    kept = [each for each in mutants if each.name not in wrong]
    record = split_record(f"{part}-{args.seed}", part, kept)
    held_out = deal(args.seed, args.without).held_out
    record |= {"seed": args.seed, "held_out": held_out, "refused": wrong}
    if args.without:
        record["without"] = args.without
    if args.dry:
        print(_told(kept, held_out, wrong))
        return 0
    if args.test:
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
        record |= {"analyzer": analyzer_hash(), "frozen": now}
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"{path}: {len(record['cases'])} mutants of {len(record['families'])} families")
    return 0


if __name__ == "__main__":
    sys.exit(main())
