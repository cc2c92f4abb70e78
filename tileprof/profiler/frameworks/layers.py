"""Single layers of PyTorch's containers in call paths: `h.3` where the source only says `h.*`.

In: PyTorch once the program has imported it.  Out: while attached, a module that the program puts
into a `ModuleList`, `Sequential` or `ModuleDict` is called through code of its own, which is that
of `Module._call_impl` under another name: `3.__layer__`. Everything that records paths tells frames
apart by their code, so nothing else has to know.
"""

from __future__ import annotations

from functools import lru_cache
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from tileprof.profile.node_names import LAYER_SUFFIX
from tileprof.profiler.import_watch import Watch, when_imported
from tileprof.profiler.locks import new_lock

_CALL = "_call_impl"
_lock = new_lock()
_users = 0
_watch: Watch | None = None
_hook: Any = None
"""PyTorch's handle of what it calls when a module becomes part of another one."""


def attach() -> None:
    """Tell layers apart that are put into containers from now on, until `detach`."""
    global _users, _watch
    with _lock:
        _users += 1
        if _users > 1:
            return
    # Without the lock: PyTorch may be there already, and is asked at once.
    _watch = when_imported("torch", _begin)


def detach() -> None:
    """Tell apart no further layers; those that were keep their code."""
    global _users, _watch, _hook
    with _lock:
        _users -= 1
        if _users:
            return
        if _watch is not None:
            _watch.forget()
        if _hook is not None:
            _hook.remove()
        _watch = _hook = None


def _begin(torch: ModuleType) -> None:
    global _hook
    module = getattr(torch.nn.modules, "module", None)
    register = getattr(module, "register_module_module_registration_hook", None)
    call = getattr(torch.nn.Module, _CALL, None)
    if register is None or not isinstance(call, FunctionType) or call.__closure__:
        return  # another version of PyTorch calls modules in another way
    kinds = (torch.nn.ModuleList, torch.nn.Sequential, torch.nn.ModuleDict)

    def put(container: Any, name: str, layer: Any) -> None:
        # A class that calls its modules in a way of its own goes on to.
        known = isinstance(layer, torch.nn.Module) and getattr(type(layer), _CALL, None) is call
        if known and isinstance(container, kinds):
            vars(layer)[_CALL] = MethodType(_renamed(call, name), layer)

    with _lock:
        if _users:
            _hook = register(put)


@lru_cache(maxsize=10_000)
def _renamed(call: FunctionType, name: str) -> FunctionType:
    """Return the same function under the name of a layer."""
    code: CodeType = call.__code__.replace(co_qualname=f"{name}{LAYER_SUFFIX}")
    made = FunctionType(code, call.__globals__, call.__name__, call.__defaults__)
    made.__kwdefaults__ = call.__kwdefaults__
    return made
