"""NVTX as libraries have it: the package `nvtx`, compiled C++, and processes that we are not in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.native.nvtx_programs import COPY, run

pytest.importorskip("tileprof.native._recorder")

VARIABLE = "NVTX_INJECTION64_PATH"
HEADERS = [Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"]
LIBRARY = """
    #include <nvtx3/nvToolsExt.h>
    extern "C" {
    int push_wide(const wchar_t *text) { return nvtxRangePushW(text); }
    int push(const char *text) { return nvtxRangePushA(text); }
    int pop() { return nvtxRangePop(); }
    unsigned long start(const char *text) { return nvtxRangeStartA(text); }
    void end(unsigned long id) { nvtxRangeEnd(id); }
    void rest() {
      nvtxMarkA("mark");
      nvtxNameCategoryA(1, "category");
      nvtxNameOsThreadA(1, "thread");
      nvtxDomainHandle_t domain = nvtxDomainCreateA("rest");
      nvtxEventAttributes_t event = {};
      event.version = NVTX_VERSION;
      event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
      event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
      event.message.registered = nvtxDomainRegisterStringA(domain, "said");
      nvtxDomainMarkEx(domain, &event);
      nvtxResourceAttributes_t resource = {};
      resource.version = NVTX_VERSION;
      resource.size = NVTX_RESOURCE_ATTRIB_STRUCT_SIZE;
      nvtxDomainResourceDestroy(nvtxDomainResourceCreate(domain, &resource));
      nvtxDomainRangePushEx(domain, &event);
      nvtxDomainDestroy(domain);
    }
    }
    int main() { return push("main") == NVTX_NO_PUSH_POP_TRACKING ? 0 : 1; }
"""


def compile_cpp(folder: Path, *options: str) -> Path:
    """Compile `LIBRARY` against the headers of an installed CUDA toolkit; skips without."""
    compiler = shutil.which("g++") or shutil.which("c++")
    found = [each for each in HEADERS if (each / "nvtx3" / "nvToolsExt.h").exists()]
    if compiler is None or not found:
        pytest.skip("needs a C++ compiler and the headers of NVTX")
    source, built = folder / "uses_nvtx.cpp", folder / "uses_nvtx"
    source.write_text(textwrap.dedent(LIBRARY))
    command = [compiler, *options, "-I", str(found[0]), str(source), "-o", str(built), "-ldl"]
    subprocess.run(command, check=True, timeout=120)
    return built


def test_the_package_nvtx() -> None:
    """Decorated functions, context managers, domains, started ranges, payloads."""
    pytest.importorskip("nvtx")
    printed = run("""
        print(ours.enable(), ours.why_not() or "enabled")
        import nvtx
        recorder.set_epoch(1)
        @nvtx.annotate("decorated", domain="library")
        def inner():
            print(path())
        with nvtx.annotate("outer", color="red", payload=3):
            inner()
            started = nvtx.start_range("started")
            nvtx.push_range("pushed")
            nvtx.mark("mark")
            print(path())
            nvtx.end_range(started)
            print(path())
            nvtx.pop_range()
        print(path() or "nothing", recorder.nvtx_attached() > 0)
    """)
    assert printed == (
        "True enabled\nouter library:decorated\nouter started pushed\nouter pushed\nnothing True\n"
    )


def test_a_compiled_library(tmp_path: Path) -> None:
    """It has a copy of NVTX of its own, which finds its tool by itself."""
    library = compile_cpp(tmp_path, "-shared", "-fPIC")
    printed = run(f"""
        ours.enable()
        library = C.CDLL({str(library)!r})
        library.start.restype = library.end.argtypes = None
        library.start.restype = C.c_ulong
        library.end.argtypes = [C.c_ulong]
        library.push_wide.argtypes = [C.c_wchar_p]
        recorder.set_epoch(1)
        print(library.push(b"a"), library.push_wide("größe"))
        started = library.start(b"started")
        library.rest()
        print(path())
        thread = threading.Thread(target=library.end, args=(started,))
        thread.start(); thread.join()
        print(path())
        print(library.pop(), library.pop(), path())
    """)
    assert printed == ("0 1\na größe started rest:said\na größe rest:said\n1 0 rest:said\n")


def test_a_program_finds_its_environment_as_it_was() -> None:
    """The variable is seen by C alone; children inherit a name that means nothing to them."""
    child = f"import os; print(os.environ.get({VARIABLE!r}))"
    printed = run(f"""
        import subprocess
        ours.enable()
        print({VARIABLE!r} in os.environ, recorder.getenv({VARIABLE!r}))
        child = [sys.executable, "-c", {child!r}]
        print(subprocess.run(child, capture_output=True, text=True).stdout.strip())
        print(subprocess.run(child, capture_output=True, text=True, env=dict(os.environ)).stdout)
    """)
    assert printed == "False libtileprof_recorder.so\nlibtileprof_recorder.so\nNone\n\n"


def test_children_that_are_not_profiled(tmp_path: Path) -> None:
    """NVTX does there what it does without a tool, in Python and without it."""
    pytest.importorskip("nvtx")
    program = compile_cpp(tmp_path)
    python = "import nvtx; print(type(nvtx.get_domain('x')).__name__, nvtx.push_range('p'))"
    printed = run(f"""
        import subprocess
        ours.enable()
        print(subprocess.run([{str(program)!r}]).returncode)
        child = [sys.executable, "-c", {python!r}]
        print(subprocess.run(child, capture_output=True, text=True).stdout)
    """)
    assert printed == "0\nDummyDomain None\n\n"


def test_the_library_by_its_path_in_a_process_without_it(tmp_path: Path) -> None:
    """Where somebody names the file itself, a process without Python cannot load it, and goes on;
    one with Python can, and the recorder declines."""
    from tileprof.native import _recorder

    pytest.importorskip("nvtx")
    environment = os.environ | {VARIABLE: str(_recorder.__file__)}
    done = subprocess.run([compile_cpp(tmp_path)], env=environment, timeout=120)
    assert done.returncode == 0
    python = "import nvtx; print(nvtx.push_range('p'), nvtx.pop_range())"
    child = subprocess.run(
        [sys.executable, "-c", python], env=environment, capture_output=True, text=True, timeout=120
    )
    assert (child.returncode, child.stdout) == (0, "None None\n")


def test_another_tool_is_left_alone() -> None:
    """Its library stays, and is named."""
    printed = run("print(ours.enable(), ours.why_not())", env={VARIABLE: "/opt/nsight/libTool.so"})
    assert printed == f"False another tool receives them ({VARIABLE} is /opt/nsight/libTool.so)\n"


def test_a_child_that_is_profiled_too() -> None:
    """It inherits the variable, and its own recorder is what the name stands for there."""
    printed = run(
        """
        recorder.set_epoch(1)
        push(b"child")
        print(ours.why_not() or "enabled", recorder.nvtx_attached(), path())
        """,
        COPY,
        env={VARIABLE: "libtileprof_recorder.so"},
    )
    assert printed == "enabled 1 child\n"
