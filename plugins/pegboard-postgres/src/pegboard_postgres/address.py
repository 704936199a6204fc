"""`Address`: the URL of a server, checked so that no message can show a part of its password."""

from __future__ import annotations

import re
from typing import Any, Final

from attrs import field, frozen

_HOST: Final = re.compile(r"[\w.:%-]*|/[\w./-]*")
_PORT: Final = re.compile(r"\d*")
_INVALID: Final = (
    "url must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE, in which special characters of the password are "
    "written as %XX"
)


@frozen
class Address:
    """Address of a database.

    Attributes:
        url: As libpq reads it: `postgresql://user:password@host:port/database`, or `host=... dbname=...`.
    """

    url: str = field(repr=False)

    def parts(self) -> dict[str, Any]:
        """Its parts, such as `host` and `password`.

        Raises:
            ValueError: It isn't an address. The text shows nothing of it, as any part may be the password: of
                `postgresql://ann:a/b@host`, libpq takes `a` for the port.
        """
        from psycopg import Error
        from psycopg.conninfo import conninfo_to_dict

        try:
            parts = conninfo_to_dict(self.url)
        except (Error, ValueError, UnicodeError):
            parts = {"host": "@"}
        hosts = [each for name in ("host", "hostaddr") for each in str(parts.get(name) or "").split(",")]
        ports = str(parts.get("port") or "").split(",")
        names = [str(parts.get(name) or "") for name in ("dbname", "user")]
        is_valid = all(map(_HOST.fullmatch, hosts)) and all(map(_PORT.fullmatch, ports))
        if not is_valid or any(set("@/") & set(name) for name in names) or "\0" in self.url or not self.url.strip():
            raise ValueError(_INVALID) from None
        return parts

    def __str__(self) -> str:
        """Where it is, without user and password: `db.example.com:5432/tools`."""
        parts = self.parts()
        host = parts.get("host") or parts.get("hostaddr") or "localhost"
        port = f":{parts['port']}" if parts.get("port") else ""
        return f"{host}{port}/{parts.get('dbname') or ''}"
