"""Names of native code: symbol tables of files, and names as they are shown."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path
from types import ModuleType
from typing import cast

import pytest

from tests.native.cupti_programs import compile_cpp
from tileprof.profile.installed import is_installed
from tileprof.profiler.symbols.functions import read_functions
from tileprof.profiler.symbols.native_code import NativeCode, without_arguments

SOURCE = """
#include <cstdio>
namespace space { int __attribute__((noinline)) named(int n) { return n + 1; } }
asm(".globl bare\\nbare: nop\\nnop\\nret\\n.type bare, @function\\n");
int main(int argc, char **) { std::printf("%d", space::named(argc)); }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with a function of a size that is not stated."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.cpp").write_text(SOURCE)
    compile_cpp([folder / "program.cpp"], folder / "program", "-O1", "-Wl,--build-id=0xabcdef")
    return folder / "program"


def test_functions_are_found_by_their_addresses(program: Path) -> None:
    """At the first and the last byte of each, as `nm` has them; the build ID is the linker's."""
    functions = read_functions(str(program))
    assert functions is not None
    listed = subprocess.run(["nm", "-S", str(program)], capture_output=True, text=True, check=True)
    sized = re.findall(r"^(\w+) (\w+) [tT] (\S+)$", listed.stdout, re.MULTILINE)
    assert {"main", "_ZN5space5namedEi"} <= {name for _, _, name in sized}
    for address, size, name in sized:
        start, last = int(address, 16), int(address, 16) + int(size, 16) - 1
        assert functions.name_at(start) == functions.name_at(last) == name
    (bare,) = [line.split()[0] for line in listed.stdout.splitlines() if line.endswith(" bare")]
    assert functions.name_at(int(bare, 16) + 1) == "bare"
    assert functions.name_at(0) == ""
    assert functions.build_id == "abcdef"


def test_damaged_files_are_read_as_far_as_they_go(program: Path, tmp_path: Path) -> None:
    """No error reaches the program that is recorded."""
    whole = program.read_bytes()
    draw = random.Random(5)
    target = tmp_path / "damaged"
    for _ in range(300):
        content = bytearray(whole[: draw.randrange(len(whole))] if draw.random() < 0.5 else whole)
        for _ in range(draw.randrange(8)):
            if content:
                # Mostly in the header and in what lists the sections.
                at = draw.randrange(64) if draw.random() < 0.3 else -1 - draw.randrange(2200)
                content[at % len(content)] = draw.randrange(256)
        target.write_bytes(content)
        functions = read_functions(str(target))
        if functions is not None:
            for address in (0, 0x1000, 0x1139, 1 << 47):
                assert isinstance(functions.name_at(address), str)
    assert read_functions(str(tmp_path)) is None
    assert read_functions(str(tmp_path / "gone")) is None


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("main", "main"),
        ("at::_ops::gelu::call(at::Tensor const&, long)", "at::_ops::gelu::call"),
        ("void f<int>(int)", "f<int>"),
        ("std::vector<int> space::make<float (*)(int)>(float (*)(int))",
         "space::make<float (*)(int)>"),
        ("(anonymous namespace)::g(int) const", "(anonymous namespace)::g"),
        ("f(int)::{lambda(int)#1}::operator()(int) const", "f(int)::{lambda(int)#1}::operator()"),
        ("A::operator bool() const", "A::operator bool"),
        ("A::operator<<(int)", "A::operator<<"),
    ],
)  # fmt: skip
def test_names_are_shown_without_arguments(name: str, shown: str) -> None:
    """And without the type that a function returns."""
    assert without_arguments(name) == shown


def test_parts_of_cudas_runtime_in_a_program_are_no_functions_of_it(tmp_path: Path) -> None:
    """What passes a launch on does not show, and the call itself is no function of the user's."""
    names = ("user", "cudaLaunchKernel", "__device_stub__ZN7squeezeEPfii", "cudaward",
             "libcudart_static_0053c1", "__cudaLaunchKernel")  # fmt: skip
    source = "".join(f'extern "C" int {name}() {{ return 1; }}\n' for name in names)
    (tmp_path / "parts.cpp").write_text(source)
    built = tmp_path / "libparts.so"
    compile_cpp([tmp_path / "parts.cpp"], built, "-O1", "-shared", "-fPIC")
    functions = read_functions(str(built))
    assert functions is not None
    build_id = functions.build_id

    class Recorder:
        """The part of the native recorder that knows modules."""

        @staticmethod
        def native_modules(first: int) -> list[tuple[str, str]]:
            return [("[generated code]", ""), (str(built), build_id)][first:]

        @staticmethod
        def native_slow() -> int:
            return 0

    code = NativeCode(cast(ModuleType, Recorder))
    shown = {}
    for start in functions.starts.tolist():
        for frame in code.frames(1 << 48 | start):
            shown[frame.name] = is_installed(frame.place.file)
    kept = {name: installed for name, installed in shown.items() if name in names}
    assert kept == {"user": False, "cudaLaunchKernel": True, "cudaward": False}
    (generated,) = code.frames(123)
    assert (generated.name, is_installed(generated.place.file)) == ("[generated code]", True)
