"""Source lines through inlined calls."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

import pytest

from tests.binary.kernels import SHARED
from tests.binary.support import STORED, kernel, need_disassembler
from tileprof.binary import Function, find_nvdisasm, place, read
from tileprof.binary.line_table import Line, _Reader, line_tables
from tileprof.errors import CubinError

Place = tuple[str, int]


def test_an_inlined_function_called_from_two_lines(arch: str) -> None:
    """Each multiply-add of `square` has the chain of the call that it was inlined for."""
    function = kernel("inlined", arch)
    adds = [each for each in function.reachable() if each.name == "FFMA"]
    chains = [function.chain(each.offset) for each in adds]
    assert [[line.line for line in chain] for chain in chains] == [[3, 10], [3, 6, 11], [3, 6, 11]]
    assert [line.function for line in chains[1]] == ["_Z6squareff", "_Z6fourthf", "inlined"]
    assert all(line.file.endswith("inlined.cu") for chain in chains for line in chain)
    assert re.fullmatch(
        r"\S*inlined.cu:3 in _Z6squareff, inlined at \S*:6, inlined at \S*:11", place(chains[1])
    )


def test_functions_that_are_called_have_their_own_name() -> None:
    """The outermost line of a procedure carries the procedure's name, not the kernel's."""
    function = kernel("calls", "sm_90a")
    start = function.procedures["$calls$_Z9fibonaccii"]
    assert function.chain(start)[-1].function == "$calls$_Z9fibonaccii"
    assert function.chain(0)[-1].function == "calls"


@pytest.mark.spread
@pytest.mark.parametrize("name", SHARED)
def test_chains_are_those_of_nvdisasm(name: str, arch: str) -> None:
    """Every instruction of every kernel, compared with `nvdisasm -gi`."""
    compare(kernel(name, arch))


def test_chains_of_an_older_compiler_are_those_of_nvdisasm() -> None:
    """The stored cubin keeps addresses of its line table otherwise."""
    need_disassembler()
    for function in read(STORED).functions.values():
        compare(function)


def compare(function: Function) -> None:
    """Assert that lines of a function equal those that nvdisasm prints.

    It prints a chain where the innermost line changes, and keeps silent where the same line was
    inlined for another call: there only the innermost line is compared.
    """
    printed = printed_chains(function.cubin.data)
    full = 0
    for each in function.reachable():
        chain = [(line.file, line.line) for line in function.chain(each.offset)]
        expected, is_fresh = printed[function.name, each.offset]
        assert chain[:1] == expected[:1], each.text
        if is_fresh:
            assert chain == expected, each.text
            full += 1
    assert full > 2


@functools.cache
def printed_chains(data: bytes) -> dict[tuple[str, int], tuple[list[Place], bool]]:
    """Function and offset -> chain, and whether it stands right before the instruction."""
    path = Path("chains.cubin")
    path.write_bytes(data)
    arguments = [str(find_nvdisasm()), "-gi", "-c", str(path)]
    text = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    found: dict[tuple[str, int], tuple[list[Place], bool]] = {}
    function = ""
    chain: list[Place] = []
    pending: list[Place] = []
    for line in text.splitlines():
        if line.startswith(".text."):
            function, chain, pending = line[6:-1], [], []
        elif note := re.search(r'//## File "([^"]+)", line (\d+)', line):
            pending.append((note[1], int(note[2])))
        elif code := re.match(r"\s+/\*([0-9a-f]{4,})\*/", line):
            chain = pending or chain
            found[function, int(code[1], 16)] = (chain, bool(pending))
            pending = []
    return found


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("data", "value"), [(b"\x02", 2), (b"\x7f", -1), (b"\x80\x01", 128), (b"\x80\x7f", -128)]
)
def test_signed_numbers(data: bytes, value: int) -> None:
    """The examples of the DWARF specification, 7.6."""
    assert _Reader(data).signed() == value


def test_without_line_information_there_are_no_chains() -> None:
    """No line table is no error; a damaged one is."""
    cubin = read(STORED)
    elf = cubin.elf
    keep = [each for each in elf.sections if each.name != ".debug_line"]
    assert line_tables(type(elf)(elf.abi_version, elf.flags, tuple(keep), elf.symbols)) == {}
    assert place(()) == "(no line)"
    assert place((Line("a.cu", 3, "f"),)) == "a.cu:3"
    spoiled = bytearray(cubin.data)
    start = cubin.data.index(elf.section(".debug_line").data)  # type: ignore[union-attr]
    spoiled[start + 4] = 9
    with pytest.raises(CubinError, match="line table is damaged: version 9"):
        read(bytes(spoiled)).functions["spill"].chain(0)
