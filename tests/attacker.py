"""A project with secrets, and the calls of a language model that was led astray: what tests of attacks share."""

from __future__ import annotations

import asyncio
import itertools
import json
from importlib.metadata import entry_points
from pathlib import Path

from pegboard import Permissions, ReadonlyContext, Rule, ToolCall, ToolRegistry
from pegboard.testing import plugin_registry

SECRET = "TOPSECRET"
KEY = "secret/key.txt"
NUMBERS = itertools.count()


def forbid(permission: str, pattern: str = "*", **more) -> Rule:
    return Rule(permission, pattern, "deny", forbid=True, **more)


def allow(permission: str, pattern: str = "*", **more) -> Rule:
    return Rule(permission, pattern, "allow", **more)


def ask(permission: str, pattern: str = "*", **more) -> Rule:
    return Rule(permission, pattern, "ask", **more)


def grow(base: Path) -> Path:
    """Makes a project with secrets, and links that lead to them; gives its folder."""
    root = base / "root"
    for name in (KEY, "secret/deep/x.txt", ".env", "sub/.env", "../outside.txt", "cafe\u0301.txt", "k\ney.txt"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{SECRET} of {path.name!r}\n", "utf-8")
    (root / "public.txt").write_text("public text\n")
    for link, place in {"link.txt": KEY, "dlink": "secret", "out": "../outside.txt", "sub/up": "..", "l": "l"}.items():
        (root / link).symlink_to(place)
    return root


def looks(root: Path) -> dict[str, bytes | str | None]:
    """All that is there, and what it holds."""
    found = {}
    for path in sorted(root.parent.rglob("*")):
        content = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        if "memory" not in path.parts:
            found[str(path.relative_to(root.parent))] = content
    return found


def installed(root: Path, *plugins: str, **settings) -> ToolRegistry:
    """A registry with some of the packages, set to the project."""
    given = {"files": {"root": str(root)}, "memory": {"folder": str(root.parent / "memory")}}
    given["shell"] = {"root": str(root), "sandbox": "none"}
    given |= settings
    entries = entry_points(group="pegboard")
    named = {name: entries[name].load() for name in plugins}  # by their names they would be looked for each time
    return plugin_registry(**named, settings={name: given[name] for name in plugins if name in given})


def whole(result) -> str:
    """All that the model sees of a result."""
    return json.dumps(result.to_json())


def attempt(registry, name, arguments, rules=(), *, mode="default", approver=None, resolved=None, **context):
    """What becomes of one call of the model's, in a session of its own."""
    number = next(NUMBERS)
    context = ReadonlyContext(**{"session": f"s{number}", "user": "ann", "invocation": f"i{number}"} | context)
    calls = [ToolCall(name, arguments, id=f"c{number}")]
    permissions = Permissions(rules, mode=mode)
    options = {"permissions": permissions, "approver": approver}
    return asyncio.run(registry.dispatch(calls, resolved, context, **options)).results[0]


def words(text: str) -> list[str]:
    return [word.encode().decode("unicode_escape") for word in text.split()]


def lines(text: str) -> list[str]:
    return [part.strip().replace("~", "\n") for line in text.strip().splitlines() for part in line.split("%%")]


def patch(*lines: str) -> dict[str, str]:
    return {"input": "\n".join(("*** Begin Patch", *lines, "*** End Patch", ""))}


def batch(*calls: tuple[str, object]) -> dict[str, object]:
    return {"tool_calls": [{"tool": name, "parameters": parameters} for name, parameters in calls]}


UNREADABLE = [forbid("read_file", pattern) for pattern in ("secret/*", "*.env", "caf\u00e9.txt", "k\ney.txt")]
OPEN = [allow(name) for name in ("edit", "shell", "message")]
