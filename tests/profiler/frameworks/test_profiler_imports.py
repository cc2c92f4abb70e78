"""What follows the import of a module: once, at the right time, and unseen."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tileprof.profiler.import_watch import Watch, when_imported

Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write modules that can be imported, until the test is over."""
    names: list[str] = []
    finders = sys.meta_path[:]

    def write(**texts: str) -> None:
        for name, text in texts.items():
            place = tmp_path / (name.replace("__", "/") + ".py")
            place.parent.mkdir(exist_ok=True)
            place.write_text(text)
            names.append(name.replace("__", "."))
            # Programs of other tests, run in this process, may have left modules of that name.
            monkeypatch.delitem(sys.modules, names[-1].partition(".")[0], raising=False)
        importlib.invalidate_caches()

    monkeypatch.syspath_prepend(tmp_path)
    yield write
    tops = {name.partition(".")[0] for name in names}
    for name in [each for each in sys.modules if each.partition(".")[0] in tops]:
        del sys.modules[name]
    assert sys.meta_path == finders, "a finder was left"


def _watch(name: str) -> tuple[list[ModuleType], Watch]:
    told: list[ModuleType] = []
    return told, when_imported(name, told.append)


def test_a_module_that_is_there(write: Write) -> None:
    """It is told of at once, and nothing is left behind."""
    told, _ = _watch("json")
    assert told == [sys.modules["json"]]


def test_a_module_that_comes(write: Write) -> None:
    """It is told of when it has run, once, also if it is reloaded."""
    write(mod_a="value = 1\n")
    told, _ = _watch("mod_a")
    more, _ = _watch("mod_a")
    assert told == []
    import mod_a  # type: ignore[import-not-found]

    assert told == more == [mod_a]
    assert told[0].value == 1
    importlib.reload(mod_a)
    assert told == [mod_a]


def test_a_module_in_a_package(write: Write) -> None:
    """The package alone is not it."""
    write(pack__mod="value = 2\n", pack____init__="")
    told, _ = _watch("pack.mod")
    importlib.import_module("pack")
    assert told == []
    assert [importlib.import_module("pack.mod")] == told
    assert [each.value for each in told] == [2]


def test_nobody_can_see_it(write: Write) -> None:
    """Specs, loaders and attributes of the module are those it has without us."""
    write(mod_a="", mod_b="")
    plain = importlib.import_module("mod_b")
    told, _ = _watch("mod_a")
    spec = importlib.util.find_spec("mod_a")
    assert isinstance(spec, ModuleSpec)
    assert repr(spec).startswith("ModuleSpec(name='mod_a', loader=<_frozen_importlib_external.Sou")
    assert spec == PathFinder.find_spec("mod_a")
    assert told == []
    found = importlib.import_module("mod_a")
    assert told == [found]
    assert type(found.__spec__) is ModuleSpec
    assert type(found.__loader__) is SourceFileLoader
    assert vars(found.__loader__).keys() == vars(plain.__loader__).keys()
    assert vars(found).keys() == vars(plain).keys()
    assert vars(found.__spec__).keys() == vars(plain.__spec__).keys()


def test_a_module_that_fails(write: Write) -> None:
    """The traceback is Python's own; when the module comes at last, it is told of."""
    write(mod_a="import sys\nif not hasattr(sys, 'good'):\n    1 / 0\n", mod_b="1 / 0\n")
    told, _ = _watch("mod_a")

    def frames(name: str) -> list[tuple[str, str]]:
        with pytest.raises(ZeroDivisionError) as caught:
            importlib.__import__(name)
        shown = traceback.extract_tb(caught.tb)
        return [(frame.filename.replace(name, "NAME"), frame.name) for frame in shown]

    assert frames("mod_a") == frames("mod_b")
    assert told == []
    sys.good = True  # type: ignore[attr-defined]
    try:
        assert [importlib.import_module("mod_a")] == told
    finally:
        del sys.good  # type: ignore[attr-defined]


def test_a_module_that_is_not_found(write: Write) -> None:
    """The error is Python's, and waiting goes on."""
    told, watch = _watch("mod_that_comes_late")
    for _ in range(2):
        assert importlib.util.find_spec("mod_that_comes_late") is None
        with pytest.raises(ModuleNotFoundError, match="No module named 'mod_that_comes_late'"):
            importlib.import_module("mod_that_comes_late")
    write(mod_that_comes_late="")
    assert [importlib.import_module("mod_that_comes_late")] == told
    watch.forget()


def test_forgetting(write: Write) -> None:
    """One that is forgotten is not called, others are; forgetting twice is harmless."""
    write(mod_a="")
    (told, watch), (others, _) = _watch("mod_a"), _watch("mod_a")
    watch.forget()
    watch.forget()
    assert [importlib.import_module("mod_a")] == others
    assert told == []


def test_a_mistake_of_ours_stays_ours(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """The import succeeds, and the mistake is printed."""
    write(mod_a="")
    seen: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)

    def then(module: ModuleType) -> None:
        raise KeyError(module.__name__)

    when_imported("mod_a", then)
    importlib.import_module("mod_a")
    assert [(each.exc_type, each.err_msg) for each in seen] == [
        (KeyError, "What was to follow mod_a failed")
    ]


def test_a_mistake_is_printed_by_pythons_own_hook_too(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That hook takes no arguments but Python's: the import succeeds all the same."""
    write(mod_a="")
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)

    def then(module: ModuleType) -> None:
        raise KeyError(module.__name__)

    when_imported("mod_a", then)
    importlib.import_module("mod_a")
    printed = capsys.readouterr().err
    assert printed.startswith("What was to follow mod_a failed\nTraceback")
    assert printed.endswith("KeyError: 'mod_a'\n")


def test_an_import_that_is_under_way(write: Write) -> None:
    """Asked for from inside of the module, or by another thread meanwhile: after its end."""
    write(
        mod_a="import sys, threading\n"
        "thread = threading.Thread(target=sys.ask)\n"
        "thread.start(); thread.join()\n"
        "sys.ask()\n"
        "value = 3\n"
    )
    told: list[Any] = []

    def ask() -> None:
        when_imported("mod_a", lambda module: told.append(module.value))

    sys.ask = ask  # type: ignore[attr-defined]
    try:
        importlib.import_module("mod_a")
    finally:
        del sys.ask  # type: ignore[attr-defined]
    assert told == [3, 3]


def test_a_module_that_no_finder_has_found(write: Write) -> None:
    """One put into `sys.modules` by hand is noticed at the next import of anything."""
    write(mod_b="")
    told, _ = _watch("mod_by_hand")
    module = sys.modules["mod_by_hand"] = ModuleType("mod_by_hand")
    try:
        importlib.import_module("mod_b")
        assert told == [module]
    finally:
        del sys.modules["mod_by_hand"]


def test_a_lazy_module_stays_lazy(write: Write) -> None:
    """It is told of, and not woken by us before the program uses it."""
    write(mod_a="import sys\nsys.woken = True\n", mod_b="", mod_c="")
    told, watch = _watch("mod_a")
    spec = importlib.util.find_spec("mod_a")
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = sys.modules["mod_a"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    importlib.import_module("mod_b")
    assert not hasattr(sys, "woken")
    assert told == []
    assert module.sys is sys
    del sys.woken
    importlib.import_module("mod_c")
    assert told == [module]
    watch.forget()


def test_many_threads(write: Write) -> None:
    """Whoever imports it and whoever waits for it: each waiter is called once, sooner or later."""
    write(mod_a="import time\ntime.sleep(0.02)\n", mod_b="")
    told: list[ModuleType] = []
    barrier = threading.Barrier(8)

    def work(waits: bool) -> None:
        barrier.wait()
        if waits:
            when_imported("mod_a", told.append)
        else:
            importlib.import_module("mod_a")

    threads = [threading.Thread(target=work, args=(n % 2 == 0,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # One that began to wait between the search for the module and its run hears of it only now.
    importlib.import_module("mod_b")
    assert told == [sys.modules["mod_a"]] * 4
