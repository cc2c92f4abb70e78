"""Pages put together from files of a package: a template, styles, scripts and one block of JSON.

In: files of a package and a document.  Out: the text of a page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any

PACKAGE = "tileprof.viewer.html"
"""Package whose styles and scripts other pages use too."""
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
"""Within strings of JSON: nothing in them can end the element that they stand in."""


def asset(*path: str, package: str = PACKAGE) -> str:
    """Return the text of a file of a package."""
    return resources.files(package).joinpath(*path).read_text(encoding="utf-8")


def assets(folder: str, names: Iterable[str], package: str = PACKAGE) -> str:
    """Return the texts of several files of a folder, one after the other."""
    return "\n".join(asset(folder, name, package=package) for name in names)


def embedded(document: Mapping[str, Any]) -> str:
    """Return JSON that can stand in a script element."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


def filled(template: str, parts: Mapping[str, str]) -> str:
    """Return the template with each `{{name}}` replaced by its part; parts are not looked into."""
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: parts[mark[1]], template)
