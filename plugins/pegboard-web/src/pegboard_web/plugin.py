"""The plugin's hooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pegboard import hookimpl
from pegboard_web.settings import Settings, check_proxies, missing_secret, read_settings

_NO_SETTINGS: Final[Mapping[str, Any]] = {}
_FIXES: Final = {
    "url": "Set plugins.web.search.url to the address of your SearXNG.",
    "key": 'Set plugins.web.search.key to { env = "NAME" } or { keyring = "NAME" }, and store the key there.',
}


class Plugin:
    """The plugin, with its settings.

    Args:
        settings: `[plugins.web]`, see `Settings`.
        given: The same as in the file, with references to secrets.

    Raises:
        ValueError: A setting is unknown or wrong, or the secret of a proxy is missing.
    """

    def __init__(self, settings: Mapping[str, Any], given: Mapping[str, Any] = _NO_SETTINGS) -> None:
        check_proxies(given)
        self._given = given
        self.settings: Settings = read_settings(settings)

    @hookimpl
    def pegboard_register_tools(self, register: Callable[[Any], None]) -> None:
        """Registers `web_fetch`, and `web_search` if there is a backend.

        Args:
            register: Registers a tool.
        """
        from pegboard_web.tools import WebFetch, WebSearch

        register(WebFetch(self.settings))
        if self.settings.search and self.settings.search.lacks is None:
            from pegboard_web.backends import ServiceBackend

            register(WebSearch(ServiceBackend(self.settings.search), self.settings))

    @hookimpl
    def pegboard_diagnose(self, report: Callable[[str, str | None], None]) -> None:
        """Reports why `web_search` isn't offered: a note if no backend is set, else a problem.

        Args:
            report: Takes a problem, and what to do about it; or a note, and `None`.
        """
        search = self.settings.search
        if search is None:
            backends = "plugins.web.search.backend can be searxng, brave or tavily"
            report(f"web_search isn't offered: no search backend is set ({backends}).", None)
        elif search.lacks is not None:
            missing = missing_secret(self._given, "search", search.lacks)
            reason = f": {missing}" if missing else ""
            report(f"web_search isn't offered: {search.backend} needs a {search.lacks}{reason}.", _FIXES[search.lacks])
