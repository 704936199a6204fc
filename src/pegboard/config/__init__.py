"""`pegboard.toml`: what the user, the project and `--config` say, as one value.

The names are found at first use, so that the warm command, which needs only to know where files are, loads nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing costs more than everything else that is loaded here
if TYPE_CHECKING:
    from pegboard.config.load import load_config
    from pegboard.config.model import Config, Ignored
    from pegboard.config.trusted import distrust, is_trusted, trust

_HOME = {
    "Config": "model",
    "Ignored": "model",
    "distrust": "trusted",
    "is_trusted": "trusted",
    "load_config": "load",
    "trust": "trusted",
}


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)


__all__ = ["Config", "Ignored", "distrust", "is_trusted", "load_config", "trust"]
