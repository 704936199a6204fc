"""Versions of the frameworks that adapters need: which is too old, and what to install."""

from __future__ import annotations

from functools import cache
from typing import Final

PEERS: Final = {  # extra -> the distribution, and its oldest version that works
    "adk": ("google-adk", "2.7"),
    "fastmcp": ("fastmcp", "4.0"),
    "langchain": ("langchain-core", "1.0"),
    "openai-agents": ("openai-agents", "0.20"),
    "pydantic-ai": ("pydantic-ai-slim", "2.20"),
    "smolagents": ("smolagents", "1.20"),
    "strands": ("strands-agents", "1.40"),
}


class PeerError(ImportError):
    """A framework isn't installed, or its installed version is too old."""


@cache
def check_peer(extra: str) -> None:
    """Checks that the framework of an extra of this package is installed, in a version that works.

    Raises:
        PeerError: It isn't; the text says what to install.
    """
    from importlib_metadata import PackageNotFoundError, version
    from packaging.version import Version

    distribution, oldest = PEERS[extra]
    install = f"pip install 'pegboard-adapters[{extra}]'"
    module = f"pegboard_adapters.{extra.replace('-', '_')}"
    try:
        found = version(distribution)
    except PackageNotFoundError:
        raise PeerError(f"{module} needs {distribution} {oldest} or newer, which isn't installed: {install}") from None
    if Version(found) < Version(oldest):
        text = f"{module} needs {distribution} {oldest} or newer; {found} is installed: {install} --upgrade"
        raise PeerError(text)
