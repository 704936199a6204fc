"""The plugin: `LockPlugin`, which checks the tools of each resolution by the lock in effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import define, field, frozen

from pegboard import Ask, Config, Problem, ResolvedTools, Tool, hookimpl, nonblocking
from pegboard.callbacks import read_only
from pegboard.config import trust_file
from pegboard.json import count_text
from pegboard.toolsets import ToolMapper, identity_of
from pegboard_lock.check import MOST_PROBLEMS_SHOWN, Comparison, Present
from pegboard_lock.drift import Drift
from pegboard_lock.lock_file import LockError, is_binding, read_lock, stamp_of
from pegboard_lock.settings import LockSettings, lock_path, read_settings

if TYPE_CHECKING:
    import click

_STEP: Final = "lock"
_CODE: Final = "pegboard/code"  # the key in a tool's meta of the digest of its code


@frozen(eq=False)
class _Loaded:
    """A lock as it was read: its comparison, or why there is none."""

    stamp: object
    comparison: Comparison | None = None
    fault: LockError | None = None
    binds: bool = False


@define(eq=False)
class LockPlugin:
    """Plugin that holds back tools that aren't as the lock has them. Each registry has its own."""

    _loaded: _Loaded | None = field(default=None, init=False)
    _settings: tuple[Config | None, LockSettings] | None = field(default=None, init=False)
    _asking: dict[tuple[str, str], str] = field(factory=dict["tuple[str, str]", str], init=False)
    _binders: dict[str, ToolMapper] = field(factory=dict[str, ToolMapper], init=False)

    @hookimpl
    def pegboard_check_tools(self, resolved: ResolvedTools, config: Config | None) -> ResolvedTools | None:
        """Holds back what has drifted from the lock.

        Raises:
            ConfigError: `[lock]` is wrong.
            LockError: A lock is required, and missing, damaged or not trusted.
        """
        if self._settings is None or self._settings[0] is not config:
            self._settings = config, read_settings(config)
        settings = self._settings[1]
        loaded = self._read(lock_path(config, settings))
        if loaded is None:
            if settings.required:
                raise LockError(lock_path(config, settings), "there is no such file; 'registry lock' writes it")
            return None
        if loaded.comparison is None:
            assert loaded.fault is not None
            raise loaded.fault
        if settings.required and not loaded.binds:
            file = lock_path(config, settings)
            raise LockError(file, f"it isn't trusted as it is; review it, then run 'registry config trust {file}'")
        return self._checked(resolved, loaded.comparison, settings)

    @hookimpl
    @nonblocking
    @read_only
    def pegboard_before_tool(self, tool: Tool) -> Ask | None:
        """Asks before each call of a tool whose drift is to be asked about."""
        if not self._asking or (text := self._asking.get((tool.name, tool.spec.digest))) is None:
            return None
        return Ask("lock", (f"{tool.name}: {text}",), metadata={"reason": text})

    @hookimpl
    def pegboard_register_commands(self, group: click.Group) -> None:
        """Adds `registry lock`, `registry verify` and `registry diff`."""
        from pegboard_lock.commands import diff_command, lock_command, verify_command

        for command in (lock_command, verify_command, diff_command):
            group.add_command(command)

    def _read(self, file: Path) -> _Loaded | None:
        """The lock in a file, read again if the file, or what is trusted, has changed; `None` if there is no file."""
        stamp = (file, stamp_of(file), stamp_of(trust_file()))
        if stamp[1] is None:
            return None
        if self._loaded is None or self._loaded.stamp != stamp:
            try:
                lock, content = read_lock(file)
            except LockError as error:
                self._loaded = _Loaded(stamp, fault=error)
            else:
                self._loaded = _Loaded(stamp, Comparison(lock, file.parent), binds=is_binding(file, content))
        return self._loaded

    def _checked(self, resolved: ResolvedTools, comparison: Comparison, settings: LockSettings) -> ResolvedTools:
        known = [*comparison.tools(resolved.tools)]
        of_code = comparison.of_code({name for _, name, _ in known})
        of_toolsets = comparison.of_toolsets({each.name: identity_of(each) for each in resolved.toolsets})
        held: dict[str, str] = {}
        problems: list[Problem] = []
        if self._asking or of_code or of_toolsets or any(own for _, _, own in known):
            for tool, name, own in known:
                shared = (*of_code.get(name or "", ()), *of_toolsets.get(tool.origin.toolset or "", ()))
                problems += self._judge(tool, (*own, *shared), own, held, settings)
        warned = [each for table in (of_code, of_toolsets) for own in table.values() for each in own]
        problems += [Problem(f"{each}", subject="lock") for each in warned if settings.action(each.kind) == "warn"]
        if problems or len(resolved.tools) < len(comparison.lock.tools):
            gone = comparison.removed(Present(resolved.tools))
            problems += [Problem(f"tool {each.tool!r} is no longer there", each.tool, subject="lock") for each in gone]
        changed = resolved.without(_STEP, held)
        if settings.bind_grants:
            changed = self._bound(changed, {tool: name for tool, name, _ in known}, comparison)
        if (more := len(problems) - MOST_PROBLEMS_SHOWN) > 0:
            rest = f"and {count_text(more, 'more problem')} of this kind; 'registry diff' shows all"
            problems[MOST_PROBLEMS_SHOWN:] = [Problem(rest, subject="lock")]
        return changed.evolve(problems=(*resolved.problems, *problems)) if problems else changed

    def _judge(
        self, tool: Tool, drifts: Sequence[Drift], own: Sequence[Drift], held: dict[str, str], settings: LockSettings
    ) -> Iterator[Problem]:
        """Holds a tool back, or has its calls ask, by the gravest action; gives the problem, if there is one."""
        by_action: dict[str, list[Drift]] = {}
        for drift in drifts:
            by_action.setdefault(settings.action(drift.kind), []).append(drift)
        key = (tool.name, tool.spec.digest)
        self._asking.pop(key, None)
        if to_hold := by_action.get("hold"):
            held[tool.name] = text = _text(to_hold)
            yield _problem(tool, f"is held back: {text}", to_hold)
        elif to_ask := by_action.get("ask"):
            self._asking[key] = text = _text(to_ask)
            yield _problem(tool, f"asks before each call: {text}", to_ask)
        elif own:
            yield _problem(tool, f"has changed: {_text(own)}", own)

    def _bound(
        self, resolved: ResolvedTools, names: Mapping[Tool, str | None], comparison: Comparison
    ) -> ResolvedTools:
        """The tools with digests of their code in their definitions, which grants and approvals are bound to."""
        tools: list[Tool] = []
        for tool in resolved.tools:
            name = names.get(tool)
            code = None if name is None else comparison.codes.entry(name, comparison.base)["code"]
            if code is None:
                tools.append(tool)
                continue
            key = code if isinstance(code, str) else " ".join(sorted(code.values()))
            if key not in self._binders:
                self._binders = {**dict([*self._binders.items()][-100:]), key: ToolMapper(partial(_with_code, key))}
            tools.append(self._binders[key].one(tool))
        return resolved.evolve(tools=tools) if tools != [*resolved.tools] else resolved


def _with_code(code: str, tool: Tool) -> Tool:
    return tool.with_spec(meta={**tool.spec.meta, _CODE: code})


def _text(drifts: Sequence[Drift]) -> str:
    return "; ".join(map(str, drifts))


def _problem(tool: Tool, text: str, drifts: Sequence[Drift]) -> Problem:
    """A problem with the commands that show and accept the drift."""
    subjects = dict.fromkeys(each.tool or each.distribution or each.toolset or "" for each in drifts)
    fix = f"review it with 'registry diff {tool.name}', accept it with 'registry lock {' '.join(subjects)}'"
    cause, origin = f"tool {tool.name!r} {text}; {fix}", tool.origin
    own = {} if origin.plugin or origin.toolset else {"subject": "lock"}
    return Problem.of(origin, cause, tool.name, **own)
