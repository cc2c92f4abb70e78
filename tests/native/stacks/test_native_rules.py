"""Rules by which stacks are followed, against what binutils reads in the same tables."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native.cupti_programs import RECORDER, compile_cpp

HERE = Path(__file__).parent
BY_SP, BY_FP, OUTERMOST, OTHER = 1, 2, 4, 5
NOT_SAVED, FROM_END = 0, 1
LIBRARIES = ("libc.so.6", "libstdc++.so.6")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that prints rules."""
    built = tmp_path_factory.mktemp("rules") / "rules"
    sources = [HERE / "rules.cpp", RECORDER / "stacks" / "cfi.cpp"]
    compile_cpp(sources, built, "-O1", f"-I{RECORDER}", "-ldl", "-fsanitize=address,undefined")
    return built


def expected_rules(library: str) -> Iterator[tuple[int, tuple[int, int, int, int] | None]]:
    """Yield (address, rule) for each row of a library's tables; None if not plain."""
    # Without files of debugging information, in which these tables are empty.
    command = ["readelf", "-wF", "-wN", library]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    columns: list[str] = []
    for line in done.stdout.splitlines():
        # A register that holds another one is printed as two words: `r10 (r10)`.
        words = re.sub(r" \(\w+\)", "", line).split()
        if words[:2] == ["LOC", "CFA"]:
            columns = words
        elif not line.strip():
            columns = []
        elif columns and re.fullmatch(r"[0-9a-f]{16}", words[0]):
            row = dict(zip(columns, words))
            yield int(words[0], 16), expected(row)


def expected(row: dict[str, str]) -> tuple[int, int, int, int] | None:
    """Return the rule of a row as binutils prints it."""
    if row.get("ra") == "u":
        return (OUTERMOST, 0, 0, 0)
    found = re.fullmatch(r"r(sp|bp)([+-]\d+)", row["CFA"])
    saved = re.fullmatch(r"c([+-]\d+)", row.get("rbp", "u"))
    if found is None or row.get("ra") != "c-8" or (saved is None and row.get("rbp", "u") != "u"):
        return None
    step = BY_SP if found[1] == "sp" else BY_FP
    if saved is None:
        return (step, NOT_SAVED, int(found[2]), 0)
    return (step, FROM_END, int(found[2]), int(saved[1]))


MOVED = """
.globl moved
.type moved, @function
moved:
.cfi_startproc
nop
.cfi_register rip, r11
.cfi_def_cfa rsp, 16
nop
.cfi_restore rip
.cfi_def_cfa rsp, 8
nop
ret
.cfi_endproc
"""


@pytest.mark.sweep
def test_a_return_address_in_a_register_is_left_to_the_library(
    program: Path, tmp_path: Path
) -> None:
    """Also where the frame's end is stated anew after that; it is plain again once restored."""
    lines = "".join(f'"{line}\\n"\n' for line in MOVED.splitlines())
    (tmp_path / "moved.cpp").write_text(f"asm({lines});")
    library = tmp_path / "libmoved.so"
    compile_cpp([tmp_path / "moved.cpp"], library, "-shared", "-fPIC")
    listed = subprocess.run(["nm", str(library)], capture_output=True, text=True, check=True)
    (start,) = re.findall(r"(\w+) T moved", listed.stdout)
    asked = "".join(f"{int(start, 16) + offset:x}\n" for offset in range(3))
    done = subprocess.run(
        [str(program), str(library)], input=asked, capture_output=True, text=True, check=True
    )
    plain = f"{BY_SP} {NOT_SAVED} 8 0"
    assert done.stdout.splitlines() == [plain, f"{OTHER} 0 0 0", plain]


@pytest.mark.parametrize("name", LIBRARIES)
def test_rules_are_those_of_the_tables(program: Path, name: str) -> None:
    """At each address where they change; what binutils calls an expression is never simple."""
    if shutil.which("readelf") is None:
        pytest.skip("binutils is not installed")
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True)
    (library, *_) = re.findall(rf"{re.escape(name)} .*x86-64.* => (\S+)", listed.stdout)
    rows = dict(expected_rules(library))
    rows.pop(0)  # what entries have in common is listed there
    asked = "".join(f"{address:x}\n" for address in rows)
    done = subprocess.run(
        [str(program), library], input=asked, capture_output=True, text=True, check=True
    )
    answers = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert len(answers) == len(rows) > 1000
    wrong = [
        (hex(address), rule, answer)
        for (address, rule), answer in zip(rows.items(), answers, strict=True)
        if rule is not None and answer != rule
    ]
    assert not wrong[:10]
    assert Counter(answer[0] for answer in answers)[OTHER] < 0.1 * len(answers)
