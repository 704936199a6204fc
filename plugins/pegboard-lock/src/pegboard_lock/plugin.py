"""The plugin: `LockPlugin`, which checks the tools of each resolution by the lock in effect."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import define, evolve, field, frozen

from pegboard import Config, Problem, ResolvedTools, Tool, hookimpl
from pegboard.callbacks import when
from pegboard.config import trust_file
from pegboard.json import count_text
from pegboard.toolsets import ToolMapper, identity_of
from pegboard_lock.check import MOST_PROBLEMS_SHOWN, Comparison, Present
from pegboard_lock.drift import Drift
from pegboard_lock.lock_file import LockError, is_binding, read_lock, stamp_of
from pegboard_lock.settings import Action, LockSettings, base_of, place_of, place_of_user, read_settings

if TYPE_CHECKING:
    import click

_STEP: Final = "lock"
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


@define(eq=False)
class LockPlugin:
    """Plugin that holds back tools that aren't as the lock has them. Each registry has its own."""

    _loaded: dict[Path, _Loaded] = field(factory=dict[Path, _Loaded], init=False)
    _settings: tuple[Config | None, LockSettings, str, str | None] | None = field(default=None, init=False)
    _mappers: dict[tuple[str | None, str | None], ToolMapper] = field(factory=dict[Any, ToolMapper], init=False)

    def _applies(self, config: Config | None) -> bool:
        """Whether a lock is there, or required."""
        settings, place, users = self._read_settings(config)
        return settings.required or any(os.path.exists(each) for each in (place, users) if each)  # noqa: PTH110  a text costs a third

    @hookimpl
    @when(_applies)
    def pegboard_check_tools(self, resolved: ResolvedTools, config: Config | None) -> ResolvedTools | None:
        """Holds back what has drifted from the lock; in a project that isn't trusted, from the user's own lock, too.

        Raises:
            ConfigError: `[lock]` is wrong.
            LockError: A lock is required, and missing, damaged or not trusted.
        """
        settings, place, users = self._read_settings(config)
        own = None if users is None else self._check(Path(users), resolved, evolve(settings, required=False), config)
        try:
            before = resolved if own is None else own
            after = self._check(Path(place).absolute(), before, settings, config)
        except LockError as error:  # of a project's lock, by which the user's isn't put out of effect
            if own is None or settings.required:
                raise
            return own.evolve(problems=(*own.problems, Problem(str(error), subject="lock")))
        return own if after is None else after

    def _check(
        self, file: Path, resolved: ResolvedTools, settings: LockSettings, config: Config | None
    ) -> ResolvedTools | None:
        loaded = self._read(file, config)
        if loaded is None:
            if settings.required:
                raise LockError(file, "there is no such file; 'registry lock' writes it")
            return None
        if loaded.comparison is None:
            assert loaded.fault is not None
            raise loaded.fault
        if settings.required and not loaded.binds:
            raise LockError(file, f"it isn't trusted as it is; review it, then run 'registry config trust {file}'")
        return self._checked(resolved, loaded.comparison, settings)

    @hookimpl
    def pegboard_register_commands(self, group: click.Group) -> None:
        """Adds `registry lock`, `registry verify` and `registry diff`."""
        from pegboard_lock.commands import diff_command, lock_command, verify_command

        for command in (lock_command, verify_command, diff_command):
            group.add_command(command)

    def _read_settings(self, config: Config | None) -> tuple[LockSettings, str, str | None]:
        """The settings, where the lock is, and where the user's own is if that counts, too."""
        known = self._settings
        if known is None or known[0] is not config:
            settings = read_settings(config)
            users = place_of_user(config, settings)
            known = config, settings, str(place_of(config, settings)), None if users is None else str(users)
            self._settings = known
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
            self._loaded = {**dict([*self._loaded.items()][-1:]), file: known}
        return known

    def _checked(self, resolved: ResolvedTools, comparison: Comparison, settings: LockSettings) -> ResolvedTools:
        known = [*comparison.tools(resolved.tools)]
        of_code = comparison.of_code({name for _, name, _ in known})
        of_toolsets = comparison.of_toolsets({each.name: identity_of(each) for each in resolved.toolsets})
        held: dict[str, str] = {}
        asked: dict[str, str] = {}
        problems: list[Problem] = []
        for tool, name, own in known if of_code or of_toolsets or any(own for _, _, own in known) else ():
            shared = (*of_code.get(name or "", ()), *of_toolsets.get(tool.origin.toolset or "", ()))
            action, drifts = _gravest((*own, *shared), settings)
            if action == "hold":
                held[tool.name] = _text(tool, drifts)
            elif action == "ask":
                asked[tool.name] = "; ".join(map(str, drifts))
            else:
                drifts = own  # the others are reported once for all tools
            problems += [_problem(tool, action, drifts)] if drifts else []
        problems += _other_problems(resolved, comparison, settings, (of_code, of_toolsets), has_drift=bool(problems))
        codes: dict[str | None, str | None] = {}
        if settings.bind_grants:
            codes = {name: comparison.code_text(name) for name in {name for _, name, _ in known}}
        changed = resolved.without(_STEP, held)
        if codes or asked:
            facts = {tool: (codes.get(name), asked.get(tool.name)) for tool, name, _ in known}
            changed = changed.evolve(tools=self._stricter(changed.tools, facts))
        if (more := len(problems) - MOST_PROBLEMS_SHOWN) > 0:
            rest = f"and {count_text(more, 'more problem')} of this kind; 'registry diff' shows all"
            problems[MOST_PROBLEMS_SHOWN:] = [Problem(rest, subject="lock")]
        return changed.evolve(problems=(*resolved.problems, *problems)) if problems else changed

    def _stricter(self, tools: Sequence[Tool], facts: Mapping[Tool, tuple[str | None, str | None]]) -> Iterator[Tool]:
        """Tools with the digests of their code, which grants are bound to then, and texts that each call asks about."""
        if len(self._mappers) > 2 * len(tools) + 100:
            self._mappers.clear()
        for mapper in self._mappers.values():
            mapper.trim(tools)
        for tool in tools:
            if (key := facts[tool]) == (None, None):
                yield tool
                continue
            if key not in self._mappers:  # the same tool each time, so that what is compiled for it stays
                self._mappers[key] = ToolMapper(partial(_changed, *key))
            yield self._mappers[key].one(tool)


def _changed(code: str | None, text: str | None, tool: Tool) -> Tool:
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
    """The problems of what several tools share and is only reported, and of tools that are gone."""
    drifts = [each for table in shared for own in table.values() for each in own]
    warned = [each for each in drifts if settings.action(each.kind) == "warn"]
    yield from (Problem(f"{each}", subject="lock") for each in warned)
    if has_drift or warned or len(resolved.tools) < len(comparison.lock.tools):
        for each in (
            each for each in comparison.removed(Present(resolved.tools)) if each.tool not in resolved.considered
        ):
            yield Problem(f"tool {each.tool!r} is no longer there", each.tool, subject="lock")


def _text(tool: Tool, drifts: Sequence[Drift]) -> str:
    """What has drifted, with the commands that show and accept it."""
    subjects = dict.fromkeys(each.tool or each.distribution or each.toolset or "" for each in drifts)
    fix = f"review it with 'registry diff {tool.name}', accept it with 'registry lock {' '.join(subjects)}'"
    return f"{'; '.join(map(str, drifts))}; {fix}"


def _problem(tool: Tool, action: Action, drifts: Sequence[Drift]) -> Problem:
    origin = tool.origin
    own = {} if origin.plugin or origin.toolset else {"subject": "lock"}
    return Problem.of(origin, f"tool {tool.name!r} {_WORDS[action]}: {_text(tool, drifts)}", tool.name, **own)
