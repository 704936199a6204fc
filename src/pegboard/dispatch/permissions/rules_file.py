"""Rules files, and a linter for rules against the known tools."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pegboard.dispatch.permissions.evaluation import Resource
from pegboard.dispatch.permissions.permissions import Permissions, may_take, owner_of
from pegboard.dispatch.permissions.rule import Rule, wildcard
from pegboard.errors import ConfigError, did_you_mean, suggest
from pegboard.json import strict_json
from pegboard.tools.spec import alike
from pegboard.tools.tool import Tool

MOST_FILE: Final = 1 << 20


def read_permissions(path: str | os.PathLike[str]) -> Permissions:
    """Reads a rules file.

    `mode = "plan"`. `allow`, `ask`, `deny` and `forbid` are lists of `"permission: pattern"`; without a pattern it is
    `*`. Each `[[rule]]` has the attributes of `Rule`, and examples that it must or must not apply to: `match` and
    `not_match`, lists of values that are read as the rule's `kind`, or else as text. The lists come first, in this
    order, so that of two that match the same the stricter wins; then the rules in theirs.

    Args:
        path: `*.json` is JSON, anything else TOML.

    Raises:
        ConfigError: It can't be read, is invalid, or another user can write or replace it; names the file and the key.
    """
    from pegboard import files  # only where one is read

    name = os.fspath(path)
    try:
        if files.others_can_write(name):  # before it is opened
            raise ValueError(files.OTHERS_WRITE)  # noqa: TRY301  as below
        content = files.read_bounded(name, MOST_FILE)
        read = strict_json if name.lower().endswith(".json") else files.parse_toml
        return Permissions.from_json(read(content))
    except OSError as error:
        raise ConfigError(f"can't be read: {files.os_error_text(error)}", file=name) from None
    except ValueError as error:
        raise ConfigError(str(error), file=name) from None


_INSIDE_A_WORD: Final = re.compile(r"[\w-]*\w\*")


def rule_problems(permissions: Permissions, tools: Iterable[Tool], *, complete: bool = True) -> tuple[str, ...]:
    """Checks rules against the known tools, for what they seem to mean and don't.

    `complete` says that there are no other tools, so that a name that none of them has is reported. So is a permission
    that only a running tool asks for, as no listing names it.
    """
    known = tuple(tools)
    rules = permissions.rules.rules
    found = ((rule, _problems(rule, permissions, known, complete=complete)) for rule in rules)
    return tuple(f"rule {rule}: {each}" for rule, problems in found for each in problems)


def _problems(rule: Rule, permissions: Permissions, tools: Sequence[Tool], *, complete: bool) -> Iterator[str]:
    named = [tool for tool in tools if rule.names(*names_of(tool))]
    if named and complete:
        yield from _misses(rule, named)
    elif complete:
        near = did_you_mean(suggest(rule.permission, sorted({name for tool in tools for name in names_of(tool)})))
        yield f"no tool, and no permission that a tool declares, is called {rule.permission!r}.{near}"
    kinds = {rule.kind} if rule.kind else {kind for tool in named for kind in tool.spec.permission_arguments.values()}
    if kinds in ({"path"}, {"url"}):  # a pattern for several kinds may be meant for one of them
        from pegboard.dispatch.permissions.places import path_problem, url_problem  # loaded only where a rule needs it

        if found := path_problem(rule) if "path" in kinds else url_problem(rule):
            yield found
    if rule.allows:
        yield from _allows_more(rule)
        yield from _allows_options(rule, permissions, named if "command" in kinds else ())
        if any(rule.names(tool.spec.permission or "") and tool.origin.trusted for tool in tools):
            strangers = (tool for tool in named if not tool.origin.trusted and rule.names(tool.name))
            yield from (f"it also allows the tool {tool.name!r} of an origin that isn't trusted." for tool in strangers)
    else:
        pattern = wildcard(alike(rule.permission))
        for tool in tools:
            if tool not in named and any(pattern.matches(alike(name)) for name in names_of(tool)):
                yield f"it isn't about the tool {tool.name!r}, whose name differs only in case or in look-alikes."


def names_of(tool: Tool) -> tuple[str, ...]:
    """The names by which rules match a tool: the offered one first, its own permission last."""
    own = tool.spec.permission
    return (tool.name, *tool.former_names, *tool.former_permissions, *(() if own is None else (own,)))


def _misses(rule: Rule, named: Sequence[Tool]) -> Iterator[str]:
    """What a rule is limited to, an argument, an owner or a source, where none of the tools that it names has it."""
    if (name := rule.field) is not None:
        has = (name in (*tool.own_names.values(), *tool.presets) or may_take(tool.spec, name) for tool in named)
        if not any(has):
            yield f"no tool that it names has an argument {name!r}."
    owners = sorted({owner_of(tool) for tool in named})
    if rule.owner not in (None, *owners):
        yield f"no tool that it names comes from {rule.owner!r}; they come from {', '.join(map(repr, owners))}."
    if rule.source not in (None, *(tool.origin.source for tool in named)):
        yield f"no tool that it names has the source {rule.source!r}."


def _allows_more(rule: Rule) -> Iterator[str]:
    """What an allow rule allows besides what it seems to."""
    first = rule.pattern.split(" ")[0]
    for word in (rule.permission, first):
        if _INSIDE_A_WORD.fullmatch(word) and not word.endswith("__*"):  # all tools of a server, or of a prefix
            yield f"'*' inside a word allows every word that begins with {word[:-1]!r}."
    if first != rule.pattern and "*" in rule.pattern:
        from pegboard.dispatch.permissions.commands import runs_anything  # loaded only where a rule needs it

        if runs_anything(rule.pattern.partition("*")[0].split() or [first]):
            yield f"{first!r} can run anything, as its arguments say."


def _allows_options(rule: Rule, permissions: Permissions, tools: Sequence[Tool]) -> Iterator[str]:
    """The options that run or write something, if an allow rule allows them and no later rule asks about them."""
    first, _, rest = rule.pattern.partition(" ")
    if "*" in first or "*" not in rest or not tools:
        return
    from pegboard.dispatch.permissions.commands import INTERPRETERS, program_of  # loaded only where a rule needs it
    from pegboard.dispatch.permissions.options import CHANGE, RUN, options_used, samples

    name, (before, _, after) = program_of([first]), rest.rpartition("*")
    permission = next(each for tool in tools for each in names_of(tool) if rule.names(each))
    allowed: dict[str, None] = {}
    for option, sample in samples(name) if name not in INTERPRETERS else ():
        for filled in (sample, f"x {sample}"):
            text = f"{first} {before}{filled}{after}".replace("*", "x")
            if any(used == option for used, _ in options_used(text.split(), RUN, CHANGE)):
                decision = permissions.rules.decide(permission, [Resource("command", text, rule.field)])
                allowed |= {option: None} if decision.rule == rule else {}
    if allowed:
        shown = ", ".join(option.replace("#", "operand ") for option in allowed)
        yield f"it also allows what makes {name} run a program or write a file: {shown}. Add rules that ask about it."
