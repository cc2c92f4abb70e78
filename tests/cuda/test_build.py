"""Text to cubin: the cache, errors at the author's line, options, and what else can be shown."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cuda.bindings.nvrtc")

from tests.cuda.ptxas_kernels import TOO_MANY_REGISTERS, source
from tileprof.compiler.cuda import build, nvrtc
from tileprof.compiler.cuda.build import Cubin, compile_cubin, compile_ptx, disassemble
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.source import CudaSource
from tileprof.compiler.cuda.target import find_target
from tileprof.errors import BuildError, KernelError, OutputError

SM_90A, SM_80 = find_target("sm_90a"), find_target("sm_80")
TINY = source("x[threadIdx.x] = n;\n", name="tiny")
HEADER = ("own.cuh", "static __device__ float tp_twice(float x) { return x + x; }\n")
INCLUDING = CudaSource(
    "including",
    '#include "own.cuh"\nextern "C" __global__ void f(float *x) {\n'
    '#line 5 "/author/kernel.py"\n  x[0] = tp_twice(x[1]);\n#line 5 "including.cu"\n}\n',
    (HEADER,),
    (),
    (),
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("TILEPROF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of texts that NVRTC has compiled."""
    done: list[str] = []
    real = nvrtc.compile_text

    def compile_text(text: str, *rest: object, name: str) -> nvrtc.Compiled:
        done.append(Path(name).name)
        return real(text, *rest, name=name)  # type: ignore[arg-type]

    monkeypatch.setattr(nvrtc, "compile_text", compile_text)
    return done


def tiny(text: str = TINY.text, controls: Controls | None = None) -> Cubin:
    """The small kernel, built."""
    return compile_cubin(replace(TINY, text=text), SM_90A, controls or Controls())


def test_the_second_build_comes_from_the_cache(folder: Path, compilations: list[str]) -> None:
    """One entry for one text, with all that belongs to it."""
    first = tiny()
    assert first.bytes.startswith(b"\x7fELF")
    assert first.path.read_bytes() == first.bytes
    again = tiny()
    assert (again.bytes, again.path, again.log) == (first.bytes, first.path, first.log)
    assert compilations == ["tiny.cu"]
    (entry,) = folder.iterdir()
    names = {p.name for p in entry.iterdir()}
    assert names == {"tiny.cu", "tiny.cubin", "tiny.ptx", "tiny.log", "seal"}
    assert (entry / "tiny.cu").read_text() == TINY.text
    assert first.resources["f"].registers > 0


def test_nvrtc_leaves_out_what_no_kernel_uses_where_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not know the option would refuse it; the machine code is the same."""
    library = nvrtc._library()
    real = library.nvrtcCompileProgram
    given: list[bool] = []

    def compile_program(program: Any, count: int, options: list[bytes]) -> Any:
        assert count == len(options)
        given.append(b"--minimal" in options)
        return real(program, count, options)

    monkeypatch.setattr(library, "nvrtcCompileProgram", compile_program)
    made = []
    for version in ((12, 3), (12, 4)):
        monkeypatch.setattr(nvrtc, "version", lambda version=version: version)
        made.append(nvrtc.compile_text(TINY.text, (), ("-arch=sm_90a",), name="tiny.cu"))
    assert given == [False, True]
    assert made[0].ok
    assert made[0].cubin == made[1].cubin


def test_a_build_without_messages_of_ptxas_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remarks are made of these messages, and the cache would keep their absence."""
    real = nvrtc.compile_text
    made: list[nvrtc.Compiled] = []

    def compile_text(*arguments: Any, **named: Any) -> nvrtc.Compiled:
        done = real(*arguments, **named)
        made.append(done if made else replace(done, log=""))
        return made[-1]

    monkeypatch.setattr(nvrtc, "compile_text", compile_text)
    assert tiny().resources["f"].registers > 0
    assert len(made) == 2


@pytest.mark.sweep
def test_resources_without_messages_of_ptxas_are_read_from_the_machine_code(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are the same; the entry is made again by the next build, which may have messages."""
    text = (
        'extern "C" __global__ void f(float *x, int n) {\n'
        "  __shared__ float y[64];\n  float z[99];\n  y[threadIdx.x] = x[0];\n"
        "  __syncthreads();\n  for (int i = 0; i < 99; i++) z[i * n % 99] = y[i % 64];\n"
        "  x[1] = z[(int)x[2]];\n}\n"
    )
    reported = tiny(text).resources["f"]
    assert min(reported.shared, reported.stack, reported.barriers) > 0
    shutil.rmtree(folder)
    real = nvrtc.compile_text
    silent = [True]

    def compile_text(*arguments: Any, **named: Any) -> nvrtc.Compiled:
        done = real(*arguments, **named)
        return replace(done, log="") if silent[0] else done

    monkeypatch.setattr(nvrtc, "compile_text", compile_text)
    made = tiny(text)
    assert made.log == ""
    assert replace(made.resources["f"], constant=0) == replace(reported, constant=0)
    silent[0] = False
    assert tiny(text).log


def test_what_decides_the_bytes_decides_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text, headers, target, controls, version of NVRTC."""
    made = [tiny().path, tiny(TINY.text + "\n").path, tiny(controls=Controls(registers=32)).path]
    made.append(compile_cubin(TINY, SM_80, Controls()).path)
    made.append(compile_cubin(INCLUDING, SM_90A, Controls()).path)
    changed = replace(INCLUDING, headers=((HEADER[0], HEADER[1] + "\n"),))
    made.append(compile_cubin(changed, SM_90A, Controls()).path)
    monkeypatch.setattr(nvrtc, "identity", lambda: "another")
    made.append(tiny().path)
    assert len(set(made)) == len(made)


@pytest.mark.parametrize("damage", ["cut", "empty", "changed", "gone", "a file", "no ptx"])
def test_a_damaged_entry_is_compiled_again(
    folder: Path, compilations: list[str], damage: str
) -> None:
    """It is never loaded, and is whole afterwards; nothing else is left."""
    first = tiny()
    held, entry = first.bytes, first.path.parent
    match damage:
        case "cut":
            first.path.write_bytes(held[: len(held) // 2])
        case "empty":
            first.path.write_bytes(b"")
        case "changed":
            first.path.write_bytes(held[:-1] + bytes([held[-1] ^ 1]))
        case "gone":
            first.path.unlink()
        case "no ptx":
            first.path.with_suffix(".ptx").unlink()
        case "a file":
            entry.rename(folder.parent / "away")
            entry.write_text("")
    again = tiny()
    assert again.path == first.path
    assert again.path.read_bytes() == again.bytes == tiny().bytes
    assert len(again.bytes) == len(held)
    assert ".entry f" in again.ptx
    assert compilations == ["tiny.cu"] * 2
    assert list(folder.iterdir()) == [entry]


def test_lines_without_an_author_are_where_the_text_lies() -> None:
    """Whatever the current folder: the text and its headers can be opened, and nothing else is."""
    made = compile_cubin(INCLUDING, SM_90A, Controls())
    files = {line.split('"')[1] for line in made.ptx.splitlines() if line.startswith("\t.file")}
    place = made.path.parent
    assert files == {"/author/kernel.py", str(place / "including.cu"), str(place / "own.cuh")}
    assert (place / "own.cuh").read_text() == HEADER[1]


PROCESS = """
from tests.cuda.test_build import SM_90A, TINY
from tests.cuda.ptxas_kernels import KERNELS
from tileprof.compiler.cuda.build import compile_cubin
from tileprof.compiler.cuda.controls import Controls
for source in (TINY, KERNELS["spill"]):
    print(compile_cubin(source, SM_90A, Controls()).path.read_bytes().hex()[-400:])
"""


@pytest.mark.sweep
def test_processes_may_build_the_same_kernel_at_once(folder: Path, tmp_path: Path) -> None:
    """From different folders, a damaged entry to begin with: one entry each, the same bytes."""
    path = tiny().path
    path.write_bytes(b"")
    root, paths = Path(__file__).parents[2], os.environ.get("PYTHONPATH", "").split(os.pathsep)
    running = []
    for n in range(2):
        (tmp_path / str(n)).mkdir()
        running.append(
            subprocess.Popen(
                [sys.executable, "-c", PROCESS],
                cwd=tmp_path / str(n),
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *paths])},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    outputs = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0] * 2, outputs
    assert len({out for out, _ in outputs}) == 1
    assert sorted(p.name.split("-")[0] for p in folder.iterdir()) == ["k", "tiny"]
    assert path.read_bytes().startswith(b"\x7fELF")


def test_threads_may_build_at_once(folder: Path) -> None:
    """The same text in all of them, and different ones."""
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: tiny(TINY.text + "\n" * (n % 3)), range(24)))
    assert len({each.path for each in made}) == 3
    assert len(list(folder.iterdir())) == 3
    assert all(each.path.read_bytes() == each.bytes for each in made)


@pytest.mark.parametrize(
    ("body", "line", "what"),
    [
        ("x[0] = 1;\nx[1] = missing;\n", 11, 'NVRTC refused the kernel: identifier "missing" is'),
        ("\n\nx[0] = tp_twice(x);\n", 12, "NVRTC refused the kernel: "),
        ('\n\nasm volatile("foo.bar 3;");\n', 12, "ptxas refused the kernel: "),
    ],
)
def test_errors_stand_at_the_line_of_the_author(body: str, line: int, what: str) -> None:
    """Of the front end and of the assembler; everything else can be read in a file."""
    text = f'#include "own.cuh"\n{source(body).text}'
    with pytest.raises(BuildError) as caught:
        compile_cubin(CudaSource("bad", text, (HEADER,), (), ()), SM_90A, Controls())
    shown = str(caught.value)
    assert shown.startswith(f"/author/kernel.py:{line}: {what}")
    log = Path(shown.rsplit(" in ", 1)[1])
    assert "--gpu-architecture=sm_90a" in log.read_text()
    assert "error" in log.read_text()
    assert (log.parent / "bad.cu").read_text() == text
    assert (log.parent / "own.cuh").read_text() == HEADER[1]


def test_an_error_in_a_header_stands_at_the_line_that_led_there() -> None:
    """A template that does not fit its argument."""
    header = ("own.cuh", "template <class T> __device__ T tp_first(T x) { return x.first; }\n")
    text = f'#include "own.cuh"\n{source("x[0] = tp_first(x[1]);").text}'
    with pytest.raises(BuildError, match=r"^/author/kernel\.py:10: .* must have class type"):
        compile_cubin(CudaSource("bad", text, (header,), (), ()), SM_90A, Controls())


def test_an_error_that_has_no_author_can_be_looked_up() -> None:
    """It stands in the file that was kept."""
    wrong = CudaSource("bad", "\nint x = y;\n", (), (), ())
    with pytest.raises(BuildError) as caught:
        compile_cubin(wrong, SM_90A, Controls())
    location = caught.value.location
    assert location is not None
    assert Path(location.file).read_text().splitlines()[location.line - 1] == "int x = y;"


def test_a_refused_text_may_become_right(compilations: list[str]) -> None:
    """What was kept of a refused text is no entry: the next call compiles."""
    wrong = replace(TINY, text="oops")
    for _ in range(2):
        with pytest.raises(BuildError):
            compile_cubin(wrong, SM_90A, Controls())
    assert compilations == ["tiny.cu"] * 2


def test_too_much_is_the_fault_of_the_kernel() -> None:
    """Registers that one instruction needs, and static shared memory."""
    with pytest.raises(KernelError) as caught:
        compile_cubin(TOO_MANY_REGISTERS, SM_90A, Controls())
    assert str(caught.value).startswith(
        "/author/kernel.py:12: one matrix instruction of `f` needs at least "
    )
    assert "registers a thread, and a thread has 128\nUse a smaller tile" in str(caught.value)
    large = source("__shared__ int s[100000]; s[n] = 3; x[0] = s[q[1]];\n")
    with pytest.raises(KernelError, match="`f` has 400,000 bytes of static shared memory; 232,448"):
        compile_cubin(large, SM_90A, Controls())


def test_a_limit_of_registers_holds() -> None:
    """Also over launch bounds in the text; what does not fit is spilled."""
    many = source(
        "float d[64]; for (int i = 0; i < 64; i++) d[i] = x[i * n];\n__syncthreads();\n"
        "for (int i = 0; i < 64; i++) x[i * 3 + n] = d[i] * d[(i + 7) % 64];\n"
    )
    free = compile_cubin(many, SM_90A, Controls()).resources["f"]
    held = compile_cubin(many, SM_90A, Controls(registers=40)).resources["f"]
    assert free.registers > 64
    assert free.spill_stores == 0
    assert held.registers == 40
    assert held.spill_stores > 0


def test_products_and_sums_are_contracted() -> None:
    """NVRTC's default stays: one fma."""
    made = compile_cubin(source("x[0] = x[1] * x[2] + x[3];\n"), SM_90A, Controls())
    assert "fma.rn.f32" in made.ptx


def test_nothing_is_fast_and_wrong() -> None:
    """Denormals are kept, roots are correctly rounded, quotients are within 2 ulp."""
    made = compile_cubin(source("x[0] = sqrtf(x[1]) / x[2];\n"), SM_90A, Controls())
    assert "sqrt.rn.f32" in made.ptx
    assert "div.full.f32" in made.ptx
    assert "div.approx" not in made.ptx
    assert ".ftz" not in made.ptx


def test_ptx_for_a_driver_to_finish(compilations: list[str]) -> None:
    """A virtual architecture, from the cache at the second call; its version is that of NVRTC."""
    text = compile_ptx(TINY, SM_80, Controls())
    assert ".target sm_80" in text
    assert compile_ptx(TINY, SM_80, Controls()) == text
    assert compilations == ["tiny.cu"]
    assert nvrtc.version() >= (12, 8)
    assert ".target sm_90a" in tiny().ptx


def test_sass_has_the_lines_of_the_author() -> None:
    """What runs, function by function, with what it comes from."""
    text = disassemble(tiny())
    assert text.startswith("f:\n")
    assert "EXIT" in text
    assert "/author/kernel.py:10" in text


WITHOUT = """
import sys
from pathlib import Path
from tileprof.compiler.cuda import nvrtc
from tileprof.errors import MissingDependencyError

class Bindings:
    def nvrtcVersion(self):
        raise RuntimeError('Failure finding "libnvrtc.so"')

{setup}
try:
    print(nvrtc.version())
except MissingDependencyError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("setup", "expected"),
    [
        ("sys.modules['cuda.bindings'] = None", "cuda-python) are missing\n"),
        (
            "import cuda.bindings\ncuda.bindings.nvrtc = Bindings()\n"
            "sys.modules['cuda.bindings.nvrtc'] = Bindings()",
            "which is missing or does not fit cuda-python\n",
        ),
    ],
)
def test_without_nvrtc(setup: str, expected: str) -> None:
    """What is missing, and how to get it; a GPU is not asked for."""
    code = WITHOUT.format(setup=setup)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout
    assert 'pip install "tileprof[cuda]". A GPU is not needed.' in done.stdout


HIT = """
import sys
from tests.cuda.test_build import tiny
sys.modules.pop("cuda.bindings.nvrtc")
sys.modules["cuda.bindings"] = None
print(len(tiny().bytes))
"""


def test_what_is_cached_does_not_load_nvrtc() -> None:
    """Where a wheel says which NVRTC it is; else the library does."""
    made = tiny()
    done = subprocess.run(
        [sys.executable, "-c", HIT],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout == f"{len(made.bytes)}\n", done.stderr


def test_the_identity_without_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The version of the library."""
    monkeypatch.setattr(nvrtc, "_WHEELS", ())
    assert nvrtc.identity.__wrapped__() == "{}.{}".format(*nvrtc.version())


def test_a_copy_that_the_bindings_do_not_find(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies that come with PyTorch are tried, until one works."""
    real = nvrtc._library.__wrapped__()
    tried: list[Path] = []

    class Bindings:
        """Finds the library only once it has been loaded."""

        def nvrtcVersion(self) -> tuple[object, int, int]:
            if not tried:
                raise RuntimeError('Failure finding "libnvrtc.so"')
            found: tuple[object, int, int] = real.nvrtcVersion()
            return found

    import cuda.bindings

    bindings = Bindings()
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", bindings)
    monkeypatch.setattr(cuda.bindings, "nvrtc", bindings)

    def preload(path: Path) -> bool:
        tried.append(path)
        return True

    monkeypatch.setattr(nvrtc, "_preload", preload)
    assert nvrtc._library.__wrapped__() is bindings
    assert tried[0].name.startswith("libnvrtc.so")


def test_a_folder_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way out is in the message."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILEPROF_CACHE", str(tmp_path / "file"))
    with pytest.raises(OutputError, match="Set TILEPROF_CACHE to a folder"):
        tiny()


def test_the_options_are_all_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in the log but what ptxas says: an option that is refused would be in it."""
    made = tiny()
    assert all(line.startswith("ptxas") for line in made.log.splitlines())
    assert build._limits(Controls()) == ()
