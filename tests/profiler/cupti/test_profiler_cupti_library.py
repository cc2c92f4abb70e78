"""Which copy of CUPTI is taken, without importing PyTorch."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tileprof.profiler.cupti import cupti_library as cupti
from tileprof.profiler.cupti import shared_objects
from tileprof.profiler.cupti.shared_objects import mapped_libraries, needed_by

RPATH, RUNPATH = 15, 29
WHEEL = "$ORIGIN/../../nvidia/cu13/lib:$ORIGIN"


def write_library(path: Path, needed: str = "", search: str = "", tag: int = RPATH) -> Path:
    """Write the dynamic section of a library that is linked to another one, and nothing else."""
    strings = b"\0libc.so.6\0" + needed.encode() + b"\0" + search.encode() + b"\0"
    at_needed, at_search = 11, 12 + len(needed)
    base, dynamic = 0x40000, 64 + 2 * 56
    entries = [(1, 1), *[(1, at_needed)] * bool(needed), *[(tag, at_search)] * bool(search)]
    entries += [(5, base + dynamic + 16 * (len(entries) + 2)), (0, 0)]
    body = b"".join(struct.pack("<qQ", *each) for each in entries) + strings
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    length = dynamic + len(body)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, length, length, 4096)
    where = struct.pack("<IIQQQQQQ", 2, 6, dynamic, base + dynamic, 0, 16 * len(entries), 0, 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header + load + where + body)
    return path


def touch(path: Path) -> Path:
    """Make an empty file and its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing on it: no packages, no toolkit, no driver, an empty process."""
    for name in (cupti.VARIABLE, "CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cupti, "_package_folders", lambda name: [tmp_path / name])
    monkeypatch.setattr(cupti, "MACHINE_TOOLKIT", str(tmp_path / "usr" / "cuda"))
    monkeypatch.setattr(cupti, "DRIVER_VERSION", tmp_path / "driver")
    monkeypatch.setattr(cupti, "LDCONFIG", str(tmp_path / "ldconfig"))
    monkeypatch.setattr(cupti, "mapped_libraries", list)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    return tmp_path


def have_driver(site: Path, version: str) -> None:
    """Let the machine have a driver."""
    (site / "driver").write_text(
        f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build\n"
    )


def have_pytorch(site: Path, needed: str, search: str = WHEEL) -> None:
    """Let the machine have a PyTorch that is linked to something, and looks for it there."""
    write_library(site / "torch" / "lib" / "libtorch_cpu.so", needed, search)


def found() -> tuple[Path, str]:
    """What is found: path and origin."""
    library = cupti.find_cupti()
    assert library is not None
    return library.path, library.origin


def test_none(site: Path) -> None:
    """It says what to install: for the driver that is there."""
    assert cupti.find_cupti() is None
    assert cupti.why_not().endswith("is not installed")
    assert cupti.remedy() == "pip install nvidia-cuda-cupti"
    have_driver(site, "550.54.14")
    assert cupti.remedy() == "pip install nvidia-cuda-cupti-cu12"
    have_driver(site, "580.82.07")
    assert cupti.remedy() == "pip install nvidia-cuda-cupti"


def test_of_pytorch_before_all_others(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that its library is linked to, whatever else is installed."""
    own = touch(site / "nvidia" / "cu13" / "lib" / "libcupti.so.13")
    touch(site / "usr" / "cuda" / "lib64" / "libcupti.so.13")
    touch(site / "triton/backends/nvidia/lib/cupti/libcupti.so.12")
    have_pytorch(site, "libcupti.so.13")
    assert found() == (own, "PyTorch's")
    other = touch(site / "mine" / "libcupti.so.13")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(other.parent))
    assert found() == (own, "PyTorch's"), "RPATH comes before the variable"


def test_of_pytorch_bundled_with_a_hash_in_its_name(site: Path) -> None:
    """As wheels have it that bring all their libraries."""
    own = touch(site / "torch" / "lib" / "libcupti-2bf0f1c3.so.12")
    touch(site / "nvidia" / "cu13" / "lib" / "libcupti.so.13")
    have_pytorch(site, "libcupti-2bf0f1c3.so.12")
    assert found() == (own, "PyTorch's")


def test_the_variable_comes_before_runpath(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the dynamic linker has it."""
    touch(site / "nvidia" / "cu13" / "lib" / "libcupti.so.13")
    library = site / "torch" / "lib" / "libtorch_cpu.so"
    write_library(library, "libcupti.so.13", WHEEL, RUNPATH)
    other = touch(site / "mine" / "libcupti.so.13")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere::{other.parent}")
    assert found() == (other, "PyTorch's")


def test_the_version_that_pytorch_wants(site: Path) -> None:
    """Where its copy lies elsewhere, one of the same major version goes before newer ones."""
    touch(site / "nvidia" / "cu13" / "lib" / "libcupti.so.13")
    older = touch(site / "nvidia" / "cuda_cupti" / "lib" / "libcupti.so.12")
    have_pytorch(site, "libcupti.so.12", "$ORIGIN")
    assert found() == (older, "of the package nvidia-cuda-cupti")
    older.unlink()
    assert found()[0].name == "libcupti.so.13"


def test_pytorch_without_cuda(site: Path) -> None:
    """It needs none, so it has no say."""
    wheel = touch(site / "nvidia" / "cu13" / "lib" / "libcupti.so.13")
    have_pytorch(site, "")
    assert found() == (wheel, "of the package nvidia-cuda-cupti")


def test_what_is_loaded_comes_first(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's own copy does not count as long as there is another."""
    tritons = site / "triton/backends/nvidia/lib/cupti/libcupti.so.12"
    other = Path("/opt/cuda/extras/CUPTI/lib64/libcupti.so.2025.3.1")
    monkeypatch.setattr(cupti, "mapped_libraries", lambda: [Path("/lib/libc.so.6"), tritons, other])
    have_pytorch(site, "libcupti.so.13")
    assert found() == (other, "loaded already")
    monkeypatch.setattr(cupti, "mapped_libraries", lambda: [tritons])
    assert found() == (tritons, "loaded already")
    wheel = touch(site / "nvidia" / "cu13" / "lib" / "libcupti.so.13")
    assert found() == (wheel, "PyTorch's")


def test_the_one_that_is_named(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before all others, whether it is there or not: loading it says so."""
    touch(site / "nvidia" / "cu13" / "lib" / "libcupti.so.13")
    monkeypatch.setenv("TILEPROF_CUPTI", "/mine/libcupti.so")
    assert found() == (Path("/mine/libcupti.so"), "named by TILEPROF_CUPTI")
    assert cupti.version(Path("/mine/libcupti.so"))[1].startswith("/mine/libcupti.so cannot be")


def test_tritons_is_the_last_resort(site: Path) -> None:
    """It is still better than nothing."""
    tritons = touch(site / "triton/backends/nvidia/lib/cupti/libcupti.so.12")
    assert found() == (tritons, "Triton's")


def test_toolkits(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is asked for, then that of the environment, then the machine's."""
    machine = touch(site / "usr/cuda/extras/CUPTI/lib64/libcupti.so.2025.3.1")
    (machine.parent / "libcupti.so.13").symlink_to(machine.name)
    (machine.parent / "libcupti.so").symlink_to("libcupti.so.13")
    assert found() == (machine, "of the CUDA toolkit")
    conda = touch(site / "prefix" / "lib" / "libcupti.so.12")
    assert found() == (conda, "of the CUDA toolkit")
    asked = touch(site / "asked" / "targets" / "x86_64-linux" / "lib" / "libcupti.so.13")
    monkeypatch.setenv("CUDA_HOME", str(site / "asked"))
    assert found() == (asked, "of the CUDA toolkit")


def test_of_the_system(site: Path) -> None:
    """What the dynamic linker has in its cache, newest first."""
    listing = site / "ldconfig"
    listing.write_text(
        "#!/bin/sh\necho '2 libs found in cache'\n"
        "echo '\tlibcupti.so.12 (libc6,x86-64) => /usr/lib/libcupti.so.12'\n"
        "echo '\tlibcupti.so.13 (libc6,x86-64) => /usr/lib/libcupti.so.13'\n"
        "echo '\tlibcublas.so.13 (libc6,x86-64) => /usr/lib/libcublas.so.13'\n"
    )
    listing.chmod(0o755)
    assert found() == (Path("/usr/lib/libcupti.so.13"), "of the system")
    have_driver(site, "570.124.06")
    assert found() == (Path("/usr/lib/libcupti.so.12"), "of the system")


def test_never_newer_than_the_driver(site: Path) -> None:
    """CUDA 13's needs a driver of series 580; the sentence says so."""
    newer = touch(site / "nvidia" / "cu13" / "lib" / "libcupti.so.13")
    have_driver(site, "570.124.06")
    assert cupti.find_cupti() is None
    assert cupti.why_not() == f"CUPTI at {newer} is newer than the driver (series 570)"
    toolkit = touch(site / "usr" / "cuda" / "lib64" / "libcupti.so.2025.2.1")
    assert found() == (toolkit, "of the CUDA toolkit")


@pytest.mark.parametrize(
    ("name", "major"),
    [
        ("libcupti.so.13", 13),
        ("libcupti.so.12", 12),
        ("libcupti.so.2025.1.1", 12),
        ("libcupti.so.2025.3.1", 13),
        ("libcupti.so.2026.2.0", 13),
        ("libcupti-2bf0f1c3.so.12", 12),
        ("libcupti.so", 0),
    ],
)
def test_versions_in_names(name: str, major: int) -> None:
    """SONAMEs have CUDA's major version, file names the year of the release."""
    assert cupti._major(name) == major


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x01\x01" + bytes(90), b"text" * 50])
def test_files_that_are_no_libraries(tmp_path: Path, content: bytes) -> None:
    """Nothing is known of them, and nothing fails."""
    path = tmp_path / "lib.so"
    path.write_bytes(content)
    assert needed_by(path, "lib") is None
    assert needed_by(tmp_path / "none.so", "lib") is None


def test_libraries_of_this_process() -> None:
    """Real ones are read: what Python's own extension is linked to, and what is mapped."""
    import _ctypes

    own = Path(_ctypes.__file__)
    assert own.resolve() in {each.resolve() for each in mapped_libraries()}
    needed = needed_by(own, "libc.so")
    assert needed is not None
    assert needed.name == "libc.so.6"
    assert needed_by(own, "libcupti") is None


def test_without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On a machine that does not show its maps nothing is known to be loaded."""
    monkeypatch.setattr(shared_objects, "MAPS", str(tmp_path / "none"))
    assert mapped_libraries() == []


def test_nothing_is_imported() -> None:
    """Looking for it imports neither PyTorch nor anything of NVIDIA's."""
    code = """if 1:
        import sys
        from tileprof.profiler.cupti.cupti_library import find_cupti, remedy
        find_cupti(); remedy()
        print({'torch', 'triton', 'nvidia', 'cuda'} & set(sys.modules))
    """
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=root, timeout=120
    )
    assert done.stdout == "set()\n", done.stderr
