"""The plugin: `LockPlugin`, which checks the tools of each resolution by the lock in effect."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field, frozen

from pegboard import Config, Problem, ResolvedTools, Tool, hookimpl
from pegboard.callbacks import when
from pegboard.config import trust_file
from pegboard.errors import cause_of
from pegboard.json import count_text
from pegboard.toolsets import ToolMapper, identity_of
from pegboard_lock.check import MOST_PROBLEMS_SHOWN, Comparison, Present
from pegboard_lock.code import FILE
from pegboard_lock.drift import Drift
from pegboard_lock.lock_file import LockError, is_binding, read_lock, stamp_of
from pegboard_lock.servers import let_pin
from pegboard_lock.settings import Action, LockSettings, base_of, places_of, read_settings

if TYPE_CHECKING:
    import click

_STEP: Final = "lock"
_MOST_LOADED: Final = 4  # locks that are remembered
_WORDS: Final[Mapping[Action, str]] = {
    "hold": "is held back",
    "ask": "asks before each call",
    "warn": "has changed",
}
_CODE: Final = "pegboard/code"  # the key in a tool's meta of the digest of its code


@frozen(eq=False)
class _Loaded:
    """A lock as it was read: its comparison, or why there is none."""

    stamp: object
    comparison: Comparison | None = None
    fault: LockError | None = None
    binds: bool = False


@frozen(eq=False)
class _Verdict:
    """What locks say of tools, by name: why they are held back, what each call asks, the digests of their code."""

    held: dict[str, str] = field(factory=dict[str, str])
    asks: dict[str, str] = field(factory=dict[str, str])
    codes: dict[str, str] = field(factory=dict[str, str])
    problems: list[Problem] = field(factory=list[Problem])


@define(eq=False)
class LockPlugin:
    """Plugin that holds back tools that aren't as the lock has them. Each registry has its own."""

    _loaded: dict[Path, _Loaded] = field(factory=dict[Path, _Loaded], init=False)
    _settings: tuple[Config | None, LockSettings, tuple[str, ...]] | None = field(default=None, init=False)
    _mappers: dict[tuple[str | None, str | None], ToolMapper] = field(factory=dict[Any, ToolMapper], init=False)

    def _applies(self, config: Config | None) -> bool:
        """Whether a lock is there, or required."""
        let_pin(config)
        settings, places = self._read_settings(config)
        return settings.required or any(map(os.path.exists, places))

    @hookimpl
    @when(_applies)
    def pegboard_check_tools(self, resolved: ResolvedTools, config: Config | None) -> ResolvedTools | None:
        """Holds back what has drifted from the lock; while that isn't trusted, from the user's own lock, too.

        Raises:
            ConfigError: `[lock]` is wrong.
            LockError: No lock could be read, or one is required, and missing, damaged or not trusted.
        """
        settings, places = self._read_settings(config)
        verdict, faults, is_compared = _Verdict(), list[LockError](), False
        for place in places:
            file, required = Path(place).absolute(), settings.required and place == places[0]
            try:
                loaded = self._load(file, config, required=required)
                if loaded is None or loaded.comparison is None:
                    continue
                is_compared = True
                _judge(verdict, resolved, loaded.comparison, settings)
                if loaded.binds:
                    break
            except Exception as error:  # whatever one lock has, the others count
                if required:
                    raise
                is_known = isinstance(error, LockError)
                faults.append(error if is_known else LockError(file, f"it can't be compared: {cause_of(error)}"))
        if faults and not is_compared:
            raise faults[0]
        verdict.problems[:0] = [Problem(str(error), subject="lock") for error in faults]
        return self._apply(verdict, resolved)

    def _load(self, file: Path, config: Config | None, *, required: bool) -> _Loaded | None:
        """The lock in a file; `None` if there is no file.

        Raises:
            LockError: It is damaged, or required, and missing or not trusted.
        """
        loaded = self._read(file, config)
        if loaded is not None and loaded.fault is not None:
            raise loaded.fault
        if required and loaded is None:
            raise LockError(file, "there is no such file; 'registry lock' writes it")
        if required and loaded is not None and not loaded.binds:
            raise LockError(file, f"it isn't trusted as it is; review it, then run 'registry config trust {file}'")
        return loaded

    @hookimpl
    def pegboard_register_commands(self, group: click.Group) -> None:
        """Adds `registry lock`, `registry verify` and `registry diff`."""
        from pegboard_lock.commands import diff_command, lock_command, verify_command

        for command in (lock_command, verify_command, diff_command):
            group.add_command(command)

    def _read_settings(self, config: Config | None) -> tuple[LockSettings, tuple[str, ...]]:
        """The settings, and where locks may be, the one in effect first."""
        known = self._settings
        if known is None or known[0] is not config:
            settings = read_settings(config)
            known = self._settings = config, settings, tuple(map(str, places_of(config, settings)))
        return known[1:]

    def _read(self, file: Path, config: Config | None) -> _Loaded | None:
        """The lock in a file, read again if the file, or what is trusted, has changed; `None` if there is no file."""
        stamp = (stamp_of(file), stamp_of(trust_file()))
        if stamp[0] is None:
            return None
        known = self._loaded.get(file)
        if known is None or known.stamp != stamp:
            try:
                lock, content = read_lock(file)
            except LockError as error:
                known = _Loaded(stamp, fault=error)
            else:
                known = _Loaded(stamp, Comparison(lock, base_of(config, file)), binds=is_binding(file, content))
            self._loaded = {**dict([*self._loaded.items()][-_MOST_LOADED:]), file: known}
        return known

    def _apply(self, verdict: _Verdict, resolved: ResolvedTools) -> ResolvedTools:
        changed = resolved.without(_STEP, verdict.held)
        if verdict.codes or verdict.asks:
            changed = changed.evolve(tools=self._restrict(changed.tools, verdict))
        problems = verdict.problems
        if (more := len(problems) - MOST_PROBLEMS_SHOWN) > 0:
            rest = f"and {count_text(more, 'more problem')} of this kind; 'registry diff' shows all"
            problems[MOST_PROBLEMS_SHOWN:] = [Problem(rest, subject="lock")]
        return changed.evolve(problems=(*resolved.problems, *problems)) if problems else changed

    def _restrict(self, tools: Sequence[Tool], verdict: _Verdict) -> Iterator[Tool]:
        """Tools with the digests of their code, which grants are bound to then, and texts that each call asks about."""
        if len(self._mappers) > 2 * len(tools) + 100:
            self._mappers.clear()
        for mapper in self._mappers.values():
            mapper.trim(tools)
        for tool in tools:
            if (key := (verdict.codes.get(tool.name), verdict.asks.get(tool.name))) == (None, None):
                yield tool
                continue
            if key not in self._mappers:  # the same tool each time, so that what is compiled for it stays
                self._mappers[key] = ToolMapper(partial(_mark, *key))
            yield self._mappers[key].one(tool)


def _judge(verdict: _Verdict, resolved: ResolvedTools, comparison: Comparison, settings: LockSettings) -> None:
    """Adds what a lock says of tools to a verdict, unless it holds them back already."""
    held = verdict.held
    known = [*comparison.tools([each for each in resolved.tools if each.name not in held] if held else resolved.tools)]
    of_code = comparison.of_code({name for _, name, _ in known})
    identities = {each.name: identity_of(each) for each in resolved.toolsets}
    of_toolsets = comparison.of_toolsets(identities)
    problems: list[Problem] = []
    for tool, name, own in known if of_code or of_toolsets or any(own for _, _, own in known) else ():
        shared = (*of_code.get(name or "", ()), *of_toolsets.get(tool.origin.toolset or "", ()))
        action, drifts = _gravest((*own, *shared), settings)
        if action == "hold":
            held[tool.name] = _text(tool, name, drifts)
        elif action == "ask":
            texts = dict.fromkeys([verdict.asks.get(tool.name), *map(str, drifts)])
            verdict.asks[tool.name] = "; ".join(filter(None, texts))
        else:
            drifts = own  # the others are reported once for all tools
        problems += [_problem(tool, action, _text(tool, name, drifts))] if drifts else []
    problems += _other_problems(resolved, comparison, settings, (of_code, of_toolsets), has_drift=bool(problems))
    if settings.bind_grants:
        keys = {tool.name: (name, tool.origin.toolset) for tool, name, _ in known}
        codes = {key: comparison.code_text(*key, identities.get(key[1] or "")) for key in {*keys.values()}}
        verdict.codes.update({tool: code for tool, key in keys.items() if (code := codes[key]) is not None})
    verdict.problems.extend(each for each in problems if each not in verdict.problems)


def _mark(code: str | None, text: str | None, tool: Tool) -> Tool:
    if code is not None:
        tool = tool.with_spec(meta={**tool.spec.meta, _CODE: code})
    return tool if text is None else tool.evolve(asks={**tool.asks, "lock": f"{tool.name}: {text}"})


def _gravest(drifts: Sequence[Drift], settings: LockSettings) -> tuple[Action, Sequence[Drift]]:
    """The gravest action for drifts of a tool, and those of them that call for it."""
    by_action: dict[Action, list[Drift]] = {"hold": [], "ask": [], "warn": []}
    for drift in drifts:
        by_action[settings.action(drift.kind)].append(drift)
    for action, found in by_action.items():
        if found:
            return action, found
    return "warn", ()


def _other_problems(
    resolved: ResolvedTools,
    comparison: Comparison,
    settings: LockSettings,
    shared: tuple[dict[str, list[Drift]], ...],
    *,
    has_drift: bool,
) -> Iterator[Problem]:
    """The problems of what is shared and only reported, or of a toolset without tools; and of tools that are gone."""
    drifts = [each for table in shared for own in table.values() for each in own]
    used = {tool.origin.toolset for tool in resolved.tools} if drifts else ()
    warned = [each for each in drifts if settings.action(each.kind) == "warn" or each.toolset not in (None, *used)]
    yield from (Problem(f"{each}", subject="lock") for each in warned)
    if has_drift or warned or len(resolved.tools) < len(comparison.lock.tools):
        for each in (
            each for each in comparison.removals(Present(resolved.tools)) if each.tool not in resolved.considered
        ):
            yield Problem(f"tool {each.tool!r} is no longer there", each.tool, subject="lock")


def _text(tool: Tool, code: str | None, drifts: Sequence[Drift]) -> str:
    """What has drifted of a tool with code of this name, with the commands that show and accept it."""
    subjects = dict.fromkeys(each.tool or each.distribution or each.toolset or "" for each in drifts)
    option = f" --functions {code.removeprefix(FILE)}" if code and code.startswith(FILE) else ""
    option += " --live" if tool.origin.toolset else ""
    review, accept = f"registry diff {tool.name}{option}", f"registry lock {' '.join(subjects)}{option}"
    return f"{'; '.join(map(str, drifts))}; review it with '{review}', accept it with '{accept}'"


def _problem(tool: Tool, action: Action, text: str) -> Problem:
    origin = tool.origin
    own = {} if origin.toolset else {"subject": "lock"}
    cause = f"tool {tool.name!r} {_WORDS[action]}: {text}"
    return Problem.of(origin, cause, tool.name, fix="Review it, and accept it if it is right.", **own)
