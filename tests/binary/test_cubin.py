"""Files that are no cubins, the functions of a cubin, and what they take."""

from __future__ import annotations

import json
import re
import struct
import subprocess
from pathlib import Path

import pytest

from tests.binary.kernels import SHARED
from tests.binary.support import STORED, compile_cuda, kernel, need_disassembler
from tileprof import binary
from tileprof.binary import Parameter, disassembly
from tileprof.binary import cubin as cubin_module
from tileprof.binary.instructions import BYTES, split_operands
from tileprof.errors import CubinError, MissingDependencyError


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"print('hello')\n", "this is text, not a cubin"),
        (b".version 8.7\n.target sm_90a\n", "this is PTX text"),
        (b"\x50\xed\x55\xba\x01\x00\x10\x00", "this is a fatbin"),
        (b"\x89PNG\r\n\x1a\n\xff\xfe", "this is not a cubin"),
        (b"\x7fELF\x02\x01", "cut short"),
        (b"\x7fELF\x02\x01\x01" + bytes(11) + struct.pack("<H", 62) + bytes(44), "of a host"),
    ],
)
def test_what_is_no_cubin_is_named(data: bytes, message: str) -> None:
    """The error says what the bytes are."""
    with pytest.raises(CubinError, match=message):
        binary.read(data)


def test_a_truncated_file_never_reads_as_a_whole_one(tmp_path: Path) -> None:
    """Wherever a cubin is cut, the error names the file and says so."""
    whole = STORED.read_bytes()
    path = tmp_path / "cut.cubin"
    for length in range(7, len(whole), 611):
        path.write_bytes(whole[:length])
        with pytest.raises(CubinError, match=r"cut\.cubin: the cubin is cut short"):
            binary.read(path)


def test_other_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file and one for an old architecture are refused."""
    with pytest.raises(CubinError, match="No such file"):
        binary.read(tmp_path / "nowhere.cubin")
    old = bytearray(STORED.read_bytes())
    old[0x30] = 52
    with pytest.raises(CubinError, match=r"for sm_52a?; those since sm_70"):
        binary.read(bytes(old))


def test_without_the_disassembler_the_elf_still_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resources and lines need no nvdisasm; instructions say how to get it."""
    monkeypatch.setattr(disassembly, "_in_wheel", lambda: None)
    monkeypatch.setattr(disassembly, "_on_machine", lambda: None)
    function = binary.read(STORED.read_bytes() + b" ").functions["spill"]
    assert function.resources.registers == 32
    assert function.lines.chain(0x10)
    with pytest.raises(MissingDependencyError, match=r'pip install "tileprof\[cuda\]"'):
        _ = function.instructions


def test_the_stored_cubin() -> None:
    """The facts that ptxas 12.8 printed when it was made."""
    cubin = binary.read(STORED)
    assert cubin.architecture == "sm_90a"
    assert [each.name for each in cubin.kernels] == ["inlined", "spill"]
    found = cubin.functions["spill"].resources
    assert (found.registers, found.local_bytes, found.stack_bytes) == (32, 176, 176)
    assert (found.max_threads, found.max_registers, found.parameter_bytes) == (1024, 32, 20)
    assert found.parameters == (Parameter(0, 0, 8), Parameter(1, 8, 8), Parameter(2, 16, 4))
    assert found.spill_instructions == 164
    assert cubin.functions["inlined"].resources.spill_instructions == 0


@pytest.mark.sweep
def test_functions_of_a_large_cubin_are_disassembled_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What comes of one function alone is what comes of it with the others."""
    need_disassembler()
    whole = binary.read(STORED)
    monkeypatch.setattr(cubin_module, "AT_ONCE", 0)
    parts = binary.read(STORED.read_bytes() + b"  ")
    for name, function in whole.functions.items():
        assert parts.functions[name].instructions == function.instructions
        assert function.instructions[0].name == "LDC"


def test_procedures_that_are_listed_apart_belong_to_their_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As nvdisasm of CUDA 12 and 13.0 lists them: pieces that follow each other."""
    whole = kernel("calls", "sm_90a")
    ends = [*whole.procedures.values(), len(whole.instructions) * BYTES]
    assert len(ends) > 2
    now = disassembly._run

    def apart(arguments: list[str], size: int) -> subprocess.CompletedProcess[bytes]:
        done = now(arguments, size)
        head, functions = json.loads(done.stdout)
        pieces = []
        for each in functions:
            if each["function-name"] != whole.name:
                pieces.append(each)
                continue
            for (name, start), end in zip(whole.procedures.items(), ends[1:]):
                code = each["sass-instructions"][start // BYTES : end // BYTES]
                pieces.append({"function-name": name, "start": start, "sass-instructions": code})
        return subprocess.CompletedProcess(arguments, 0, json.dumps([head, pieces]).encode())

    monkeypatch.setattr(disassembly, "_run", apart)
    found = binary.read(whole.cubin.data + b" ").functions["calls"]
    assert found.instructions == whole.instructions
    assert [each.start for each in found.blocks] == [each.start for each in whole.blocks]


def test_the_same_bytes_are_read_once() -> None:
    """What has been disassembled is kept."""
    assert binary.read(STORED) is binary.read(STORED.read_bytes())


@pytest.mark.spread
@pytest.mark.parametrize("name", SHARED)
def test_resources_are_those_that_the_compiler_prints(name: str, arch: str) -> None:
    """Registers, stack, shared memory and barriers equal ptxas's own report."""
    cubin, log = compile_cuda(name, arch)
    assert cubin.architecture == arch
    found = cubin.functions[name].resources
    properties = log[log.index(f"Function properties for {name}") :]
    used = re.search(
        r"Used (\d+) registers, used (\d+) barriers(?:.*?(\d+) bytes smem)?", properties
    )
    frame = re.search(r"(\d+) bytes stack frame", properties)
    assert used is not None
    assert frame is not None
    assert found.registers == int(used[1])
    assert found.barriers == int(used[2])
    assert found.shared_bytes == int(used[3] or 0)
    assert found.local_bytes == int(frame[1])


def test_recursion_leaves_the_stack_open() -> None:
    """The whole stack of a kernel that calls a recursive function is not known."""
    assert kernel("calls", "sm_90a").resources.stack_bytes is None
    assert kernel("nest", "sm_90a").resources.stack_bytes == 0


def test_control_bits(arch: str) -> None:
    """A load signals a scoreboard, and the first instruction that reads its result waits for it."""
    function = kernel("inlined", arch)
    load = next(each for each in function.reachable() if each.name == "LDG")
    board = load.control.write_barrier
    assert board is not None
    user = next(
        each
        for each in function.reachable()
        if load.operands[0] in binary.effects(each).reads and each.offset > load.offset
    )
    assert board in user.control.waits
    assert 1 <= load.control.stall <= 15


@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("R9[R7+0x4]", ("R9", "[R7+0x4]")),
        ("P0[UR8], R2", ("P0", "[UR8]", "R2")),
        ("PT, R3[R6], R3", ("PT", "R3", "[R6]", "R3")),
        ("RZ[R0+URZ], RZ", ("RZ", "[R0+URZ]", "RZ")),
        ("[UR8][UR34], UR33", ("[UR8]", "[UR34]", "UR33")),
        ("desc[UR6][R2.64][R7]", ("[R7]", "desc[UR6][R2.64]")),
        ("R4, desc[UR6][R2.64+0x8]", ("R4", "desc[UR6][R2.64+0x8]")),
        ("R24, gdesc[UR8], R24, gsb0", ("R24", "gdesc[UR8]", "R24", "gsb0")),
        ("R1, c[0x0][0x28]", ("R1", "c[0x0][0x28]")),
        ("R2.reuse, -R3, |R4|", ("R2.reuse", "-R3", "|R4|")),
    ],
)
def test_operands_with_and_without_commas(text: str, operands: tuple[str, ...]) -> None:
    """As versions of nvdisasm write them."""
    assert split_operands(text) == operands
    assert split_operands(", ".join(operands)) == operands
