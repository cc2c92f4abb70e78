"""A learner's file as an attempt: it is executed, and its members are taken."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import ModuleType

from tileprof.errors import InternalError, Location, TileprofError, last_line, said

from .exercise import Attempt, Failure

_MODULE = "tileprof_learn_attempt"


def load(path: Path) -> Attempt | Failure:
    """Execute a file; a failure names the line that went wrong."""
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        return Failure("file", f"{path} cannot be read: {error}")
    # Kernels read their source through this cache, which may hold what an editor has replaced.
    linecache.checkcache(str(path))
    module = ModuleType(_MODULE)
    module.__file__ = str(path)
    # Classes of the file look themselves up by the name of their module.
    sys.modules[_MODULE] = module
    try:
        exec(compile(text, str(path), "exec", dont_inherit=True), vars(module))
    except InternalError:
        raise
    except SyntaxError as error:
        place = Location(str(path), error.lineno or 1)
        return Failure("file", f"this is not Python: {error.msg}", place)
    except TileprofError as error:
        return Failure("kernel", error.message, error.location, error.hint)
    except (Exception, SystemExit) as error:
        return Failure(
            "file",
            f"the file cannot be imported: {said(error)}",
            last_line(error, str(path)),
            'What runs the kernel belongs under `if __name__ == "__main__":`.',
        )
    finally:
        sys.modules.pop(_MODULE, None)
    return Attempt(vars(module), path.name)
