"""Native frames of launches, against chains of calls that are known."""

from __future__ import annotations

import ctypes as C
import os
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.native.cupti_programs import Fake, compile_cpp
from tileprof.profiler.symbols import lines
from tileprof.profiler.symbols.native_code import CodeFrame, NativeCode

pytest.importorskip("tileprof.native._recorder")

CHAIN = Path(__file__).with_name("chain.cpp")
API, NATIVE = 6, 9
EXPORTED = '-DEXPORTED=__attribute__((visibility("default")))'
RUN = ["chain_run", "chain::sized", "chain::aligned", "chain::Box<int>::middle", "chain::innermost"]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chains, optimised and with debugging information."""
    return build(tmp_path_factory.mktemp("chain") / "libchain.so", "-g")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Chains of the same shape with functions of other names."""
    target = tmp_path_factory.mktemp("other") / "libother.so"
    return build(target, "-g", "-Dinnermost=replaced", "-Dmiddle=changed")


def build(target: Path, *flags: str) -> Path:
    """Compile the chains."""
    compile_cpp([CHAIN], target, "-O2", "-fPIC", "-shared", "-Wl,--build-id", *flags)
    return target


def copied(library: Path, target: Path) -> Path:
    """Copy a library to a place that no other test has loaded it from."""
    return Path(shutil.copy(library, target))


@pytest.fixture
def native(fake: Fake) -> Iterator[Fake]:
    """Recording is on, with native frames."""
    fake.recorder.set_native(True)
    yield fake
    fake.recorder.set_native(False)


def launching(fake: Fake) -> C.c_void_p:
    """Return the address of the played driver's call."""
    return C.cast(fake.c.fake_call, C.c_void_p)


def calls(fake: Fake, run: Callable[[], object]) -> list[list[int]]:
    """Return the native frames, outermost first, of each place of a launch."""
    before = {context: count for context, count, *_ in fake.recorder.host_times()}
    run()
    all_of = [(0, 0, 0, 0), *fake.recorder.contexts(1)]
    found = []
    for context, count, *_ in fake.recorder.host_times():
        parent, kind, _, _ = all_of[context]
        if kind == API and count != before.get(context, 0):
            chain = []
            while all_of[parent][1] == NATIVE:
                chain.append(all_of[parent][2])
                parent = all_of[parent][0]
            found.append(chain[::-1])
    return found


def names(code: NativeCode, chain: list[int], file: str = "chain") -> list[str]:
    """Return the functions of a chain that are in files of that name."""
    frames = [frame for call in chain for frame in code.frames(call)]
    return [frame.name for frame in frames if file in frame.place.file]


def test_frames_of_a_launch_are_those_that_called_it(native: Fake, library: Path) -> None:
    """Frames of fixed and of computed size, and those that are aligned anew."""
    chained, slow = C.CDLL(str(library)), native.recorder.native_slow()
    (chain,) = calls(native, lambda: chained.chain_run(launching(native)))
    assert names(NativeCode(native.recorder), chain) == RUN
    assert native.recorder.native_slow() == slow


def test_no_frames_of_the_interpreter_are_around_them(native: Fake, library: Path) -> None:
    """Frames outside of the innermost Python function belong to functions around that."""

    def inner() -> None:
        C.CDLL(str(library)).chain_run(launching(native))

    (chain,) = calls(native, inner)
    (outermost,) = NativeCode(native.recorder).modules_of(chain[:1])
    assert "_ctypes" in outermost.path


def test_without_the_option_there_are_none(fake: Fake, library: Path) -> None:
    """The place of a launch is its Python frames' alone."""
    chained = C.CDLL(str(library))
    assert calls(fake, lambda: chained.chain_run(launching(fake))) == [[]]


def test_a_thread_without_python_begins_with_its_function(native: Fake, library: Path) -> None:
    """Functions of the C library that start threads are left out."""
    chained = C.CDLL(str(library))
    (chain,) = calls(native, lambda: chained.chain_thread(launching(native)))
    code = NativeCode(native.recorder)
    assert names(code, chain)[-len(RUN) :] == RUN
    assert all("libc.so" not in module.path for module in code.modules_of(chain))


def test_a_place_is_known_again(native: Fake, library: Path) -> None:
    """Repeated launches make no contexts."""
    chained = C.CDLL(str(library))
    chained.chain_run(launching(native))

    def again() -> None:
        for _ in range(100):
            chained.chain_run(launching(native))

    calls(native, again)
    before = native.recorder.context_count()
    calls(native, again)
    assert native.recorder.context_count() == before


def test_a_stack_that_the_program_switched_to_is_followed(native: Fake, library: Path) -> None:
    """By the compiler's library; it ends where the stack does."""
    chained, code = C.CDLL(str(library)), NativeCode(native.recorder)
    (chain,) = calls(native, lambda: chained.chain_switched(launching(native)))
    assert names(code, chain) == ["chain::on_own_stack", *RUN]
    assert code.facts() == {"slow native stacks": "1"}
    assert not NativeCode(native.recorder).facts(), "a later recording has none"


WITHOUT_PROC = """
#include <cerrno>
#include <pthread.h>
extern "C" int pthread_getattr_np(pthread_t, pthread_attr_t *) { return ENOENT; }
"""
RECORDS = """
import ctypes, sys
from tests.native.cupti_programs import Fake
from tests.native.stacks import test_native_stacks as t
from tileprof.native import _recorder
fake = Fake(sys.argv[1], _recorder)
_recorder.set_epoch(1)
assert fake.start() == (0, "")
_recorder.set_native(True)
code = t.NativeCode(_recorder)
(chain,) = t.calls(fake, lambda: ctypes.CDLL(sys.argv[2]).chain_run(t.launching(fake)))
assert t.names(code, chain) == t.RUN, t.names(code, chain)
(outermost,) = code.modules_of(chain[:1])
assert "_ctypes" in outermost.path, outermost
assert not code.facts()
"""


def test_the_main_threads_stack_is_known_without_proc(
    fake_library: Path, library: Path, tmp_path: Path
) -> None:
    """Its frames end at the interpreter where the C library cannot say where the stack lies."""
    (tmp_path / "without.cpp").write_text(WITHOUT_PROC)
    preloaded = tmp_path / "libwithout.so"
    compile_cpp([tmp_path / "without.cpp"], preloaded, "-fPIC", "-shared")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", RECORDS, str(fake_library), str(library)],
        env={**environment, "LD_PRELOAD": str(preloaded)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_deep_recursion_is_bounded(native: Fake, library: Path) -> None:
    """The innermost frames are kept, and deeper recursion adds none."""
    chained = C.CDLL(str(library))
    (chain,) = calls(native, lambda: chained.chain_deep(launching(native), 50_000))
    found = names(NativeCode(native.recorder), chain)
    assert found[-1] == "chain::innermost"
    assert set(found[:-1]) == {"chain::deep"}
    assert 100 < len(found) <= 128


def test_inlined_functions_and_lines_are_added_at_the_end(native: Fake, library: Path) -> None:
    """Both tools that read them say the same."""
    chained = C.CDLL(str(library))
    (chain,) = calls(native, lambda: chained.chain_run(launching(native)))
    code = NativeCode(native.recorder)
    assert "chain::inlined" not in names(code, chain)
    code.add_lines(chain)
    found = [frame for call in chain for frame in code.frames(call)]
    own = [frame for frame in found if frame.place.file == str(CHAIN)]
    assert [frame.name for frame in own] == [*RUN[:-1], "chain::inlined", "chain::innermost"]
    assert [marked(frame) for frame in own[-3:]] == ["// middle", "// inlined", "// launch"]


def marked(frame: CodeFrame) -> str:
    """Return the comment at the end of a frame's line."""
    text = CHAIN.read_text().splitlines()[frame.place.line - 1]
    return text[text.index("//") :]


def test_addr2line_says_the_same(
    native: Fake, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked where LLVM's tool is not installed."""
    chained = C.CDLL(str(library))
    (chain,) = calls(native, lambda: chained.chain_run(launching(native)))
    code = NativeCode(native.recorder)
    own = [call for call in chain if names(code, [call])]
    addresses = [call & ((1 << 48) - 1) for call in own]
    said = []
    for tool in ("addr2line", "llvm-symbolizer"):
        if (installed := shutil.which(tool)) is None:
            pytest.skip(f"{tool} is not installed")
        found = partial(only, tool, installed)
        monkeypatch.setattr("tileprof.profiler.symbols.lines.shutil.which", found)
        read = lines.read_lines(str(library), addresses)
        said.append(
            {
                address: [(each.function.partition(".")[0], each.line) for each in frames]
                for address, frames in read.items()
            }
        )
        monkeypatch.undo()
    assert said[0] == said[1]
    assert len(said[0]) == 5


def only(tool: str, path: str, name: str) -> str | None:
    """Stand for `shutil.which` where one tool alone is installed."""
    return path if name == tool else None


def test_a_stripped_library_is_named_with_offsets(native: Fake, tmp_path: Path) -> None:
    """Functions that are exported have names; others are where they are in the file."""
    chained = C.CDLL(str(build(tmp_path / "libstripped.so", "-s", "-fvisibility=hidden", EXPORTED)))
    (chain,) = calls(native, lambda: chained.chain_run(launching(native)))
    first, *others = names(NativeCode(native.recorder), chain, "libstripped")
    assert first == "chain_run"
    assert len(others) == len(RUN) - 1
    assert all(name.startswith("libstripped.so+0x") for name in others)


def test_notes_that_are_not_in_memory_are_not_read(
    native: Fake, library: Path, tmp_path: Path
) -> None:
    """A file whose notes were displaced has no build ID, and hurts nobody."""
    content = bytearray(library.read_bytes())
    (table,) = struct.unpack_from("<Q", content, 0x20)
    (count,) = struct.unpack_from("<H", content, 0x38)
    displaced = 0
    for entry in range(table, table + 56 * count, 56):
        kind, _, _, address, _, _, _, alignment = struct.unpack_from("<IIQQQQQQ", content, entry)
        # The dynamic linker reads those of the alignment 8.
        if (kind, alignment) == (4, 4):
            struct.pack_into("<Q", content, entry + 16, address + (1 << 46))
            displaced += 1
    assert displaced
    path = tmp_path / "libdisplaced.so"
    path.write_bytes(content)
    (chain,) = calls(native, partial(C.CDLL(str(path)).chain_run, launching(native)))
    code = NativeCode(native.recorder)
    assert len(names(code, chain, path.stem)) == len(RUN)
    assert [each.build_id for each in code.modules_of(chain) if each.path == str(path)] == [""]


def test_a_file_that_was_replaced_names_nothing(
    native: Fake, library: Path, other: Path, tmp_path: Path
) -> None:
    """Symbols of another build would be wrong."""
    path = copied(library, tmp_path / "libreplaced.so")
    chained = C.CDLL(str(path))
    (chain,) = calls(native, lambda: chained.chain_run(launching(native)))
    path.unlink()
    copied(other, path)
    found = names(NativeCode(native.recorder), chain, "libreplaced")
    assert len(found) == len(RUN)
    assert all(name.startswith("libreplaced.so+0x") for name in found)


def test_another_library_in_the_place_of_one_that_was_unloaded(
    native: Fake, library: Path, other: Path, tmp_path: Path
) -> None:
    """Its launches have its own functions and file, even at the same addresses."""
    first = copied(library, tmp_path / "libfirst.so")
    second = copied(other, tmp_path / "libsecond.so")
    dlclose = C.CDLL(None).dlclose
    dlclose.argtypes = [C.c_void_p]
    code, bases = NativeCode(native.recorder), []
    for path, innermost in ((first, "innermost"), (second, "replaced"), (first, "innermost")):
        chained = C.CDLL(str(path))
        bases.append(C.cast(chained.chain_run, C.c_void_p).value)
        run = partial(chained.chain_run, launching(native))
        (chain,) = calls(native, run)
        found = names(code, chain, path.stem)
        assert (len(found), found[-1]) == (len(RUN), f"chain::{innermost}")
        assert dlclose(chained._handle) == 0
    assert bases[0] == bases[1] == bases[2], "the addresses were not used again"


def test_threads_launch_while_libraries_come_and_go(
    native: Fake, library: Path, tmp_path: Path
) -> None:
    """Neither is waited for without end, and each launch is counted where it was made."""
    path = copied(library, tmp_path / "libcoming.so")
    dlclose = C.CDLL(None).dlclose
    dlclose.argtypes = [C.c_void_p]
    stop, rounds = threading.Event(), 0

    def come_and_go() -> None:
        nonlocal rounds
        while not stop.is_set():
            chained = C.CDLL(str(path))
            chained.chain_run(launching(native))
            assert dlclose(chained._handle) == 0
            rounds += 1

    thread = threading.Thread(target=come_and_go)
    thread.start()
    native.rows()
    native.threads(4, 20_000, 1000)
    stop.set()
    thread.join()
    assert rounds > 10
    assert sum(row.count for row in native.rows("kernel")) == 4 * 20_000
    found = calls(native, lambda: native.threads(4, 10, 10))
    code = NativeCode(native.recorder)
    assert all("fake_many" in names(code, chain, "fakecupti") for chain in found)
