"""Functions wrapped in a context manager, whatever kind of function they are."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, TypeVar, cast

from tileprof.errors import UsageError

_Function = TypeVar("_Function", bound=Callable[..., Any])


def wrapped(function: _Function, around: AbstractContextManager[Any]) -> _Function:
    """Return the function with `around` entered for each call; `UsageError` for what is none.

    Of generators and coroutines the whole run is inside, not only the call that makes them.
    """
    if not callable(function) or inspect.isclass(function):
        raise UsageError(
            f"{function!r} cannot be decorated", hint="Decorate functions, methods or coroutines."
        )
    if inspect.iscoroutinefunction(function):
        return cast(_Function, _coroutine(function, around))
    if inspect.isasyncgenfunction(function):
        return cast(_Function, _async_generator(function, around))
    if inspect.isgeneratorfunction(function):
        return cast(_Function, _generator(function, around))

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with around:
            return function(*args, **kwargs)

    return cast(_Function, call)


def _coroutine(function: Callable[..., Any], around: AbstractContextManager[Any]) -> Any:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        with around:
            return await function(*args, **kwargs)

    return run


def _generator(function: Callable[..., Any], around: AbstractContextManager[Any]) -> Any:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with around:
            return (yield from function(*args, **kwargs))

    return run


def _async_generator(function: Callable[..., Any], around: AbstractContextManager[Any]) -> Any:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        with around:
            async for item in function(*args, **kwargs):
                yield item

    return run
