"""Names of `tileprof.agent`, loaded when one is first used."""

from tileprof.agent.pages import MOST_TOKENS, page_of, tokens
from tileprof.agent.server import build_server
from tileprof.agent.tools import Tools

__all__ = ["MOST_TOKENS", "Tools", "build_server", "page_of", "tokens"]
