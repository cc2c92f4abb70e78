"""Links of pages to files beside the docs: on the site they are the names of these files.

In: the text of a page, as MkDocs hands it over.  Out: the text with no link that leaves the docs,
so that `mkdocs build --strict` can hold all others to be true.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)#:\s]+)(?P<place>#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return the text of a page for the site."""
    docs = Path(config["docs_dir"]).resolve()
    return inside(markdown, (docs / page.file.src_uri).parent, docs)


def inside(markdown: str, folder: Path, docs: Path) -> str:
    """Return a page's text, in a folder of the docs, with links out of them as plain words."""

    def shown(found: re.Match[str]) -> str:
        target = (folder / found["target"]).resolve()
        if target.is_relative_to(docs):
            return found[0]
        name = target.relative_to(docs.parent).as_posix()
        return found["text"] if f"`{name}`" == found["text"] else f"{found['text']} (`{name}`)"

    return _LINK.sub(shown, markdown)
