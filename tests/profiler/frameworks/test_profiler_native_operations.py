"""Native frames of calls of the driver in operations of PyTorch, on a played driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.native.cupti_programs import compile_cpp
from tileprof.profile import Profile, load

pytest.importorskip("tileprof.native._recorder")
pytest.importorskip("torch")

ROOT = Path(__file__).parents[3]
PROGRAM = """
import ctypes, os, torch
torch.set_num_threads(1)
x = torch.randn(64, 64, requires_grad=True)
preloaded = ctypes.CDLL(None)
played = ctypes.CDLL(os.environ["TILEPROF_CUPTI"])
preloaded.call_at_allocations(played.fake_call)
torch.nn.functional.gelu(x).sum().backward()
preloaded.call_at_allocations(None)
"""


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory, library: Path) -> Profile:
    """The profile of the program."""
    folder = tmp_path_factory.mktemp("operations")
    preloaded = folder / "libpreloaded.so"
    compile_cpp([Path(__file__).with_name("allocating.cpp")], preloaded, "-O2", "-fPIC", "-shared")
    (folder / "prog.py").write_text(PROGRAM)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TILEPROF_CUPTI": str(library),
        "LD_PRELOAD": str(preloaded),
    }
    command = ["run", "--quiet", "--context", "native", "-o", "out.tprof", "prog.py"]
    done = subprocess.run(
        [sys.executable, "-m", "tileprof", *command],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return load(folder / "out.tprof")


def called(profile: Profile, operation: str) -> list[tuple[list[str], set[str]]]:
    """Return the names of what is between an operation and each call of the driver in it, and the
    files of its functions."""
    found = []
    for call in profile.find("cuStreamSynchronize", "api"):
        path = profile.path(call)
        ops = [at for at, node in enumerate(path) if profile.kinds[node] == "op"]
        if ops and profile.names[path[ops[-1]]] == operation:
            inside = path[ops[-1] + 1 : -1]
            assert {profile.kinds[node] for node in inside} == {"frame"}
            files = {place.file for node in inside if (place := profile.locations[node])}
            names = [profile.names[node] for node in inside]
            found.append((names, {Path(file).name for file in files}))
    return found


def test_frames_in_an_operation_are_those_it_called(profile: Profile) -> None:
    """Those that led to it, of Python's binding and of PyTorch's dispatcher, are not below it."""
    found = called(profile, "aten::gelu")
    assert found
    for names, files in found:
        assert "at::_ops::gelu::redispatch" in names
        assert "at::_ops::gelu::call" not in names
        assert {"libtorch_cpu.so", "libpreloaded.so"} <= files
        assert "libtorch_python.so" not in files
    assert any("c10::alloc_cpu" in names for names, _ in found)


def test_frames_in_a_node_of_the_backward_pass_are_those_it_called(profile: Profile) -> None:
    """They begin with the node's function; the engine's are not among them."""
    found = called(profile, "GeluBackward0")
    assert found
    for names, _ in found:
        assert names[0] == "torch::autograd::generated::GeluBackward0::apply"
