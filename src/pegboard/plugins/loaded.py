"""`LoadedPlugin`: a plugin's object and everything that it brought, gathered hook by hook."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pluggy
from attrs import define, field

from pegboard.callbacks import by_name
from pegboard.catalogue import CALLBACK_STAGES
from pegboard.errors import PegboardError, RegistrationError, cause_of, did_you_mean, suggest
from pegboard.plugins import hookspecs
from pegboard.plugins.hookspecs import PROJECT, REGISTER_HOOKS
from pegboard.tools.tool import Tool

if TYPE_CHECKING:
    from pegboard.plugins.manifest import PluginManifest

_KNOWN_HOOKS: Final = tuple(name for name in vars(hookspecs) if name.startswith("pegboard_"))
_RUN_TIME_HOOKS: Final = tuple(f"pegboard_{stage}" for stage in CALLBACK_STAGES)
_KINDS: Final = {
    "pegboard_register_predicates": "predicates",
    "pegboard_register_processors": "processors",
    "pegboard_register_exporters": "exporters",
    "pegboard_register_executors": "executors",
    "pegboard_register_models": "models",
}


@define(eq=False)
class LoadedPlugin:
    """What one plugin brought.

    Attributes:
        name: The plugin's name.
        plugin: Its object.
        implementations: Its hook implementations by hook name.
        tools: In the order in which it registered them.
        toolsets: Likewise.
        extras: Predicates, processors, exporters, executors and models: kind -> name -> thing.
        faults: What was refused, one sentence each; everything else works.
    """

    name: str
    plugin: Any
    implementations: dict[str, pluggy.HookImpl] = field(factory=dict[str, pluggy.HookImpl])
    tools: list[Tool] = field(factory=list[Tool])
    toolsets: list[Any] = field(factory=list[Any])
    extras: dict[str, dict[str, Any]] = field(factory=dict[str, dict[str, Any]])
    faults: list[str] = field(factory=list[str])

    @property
    def brought_anything(self) -> bool:
        """Whether there is anything that works."""
        acts = any(hook in _RUN_TIME_HOOKS for hook in self.implementations)
        return acts or bool(self.tools or self.toolsets or self.extras)

    @property
    def hooks(self) -> tuple[str, ...]:
        """The hooks that it implements, sorted."""
        return tuple(sorted(self.implementations))


def gather(name: str, thing: Any, settings: Mapping[str, Any]) -> LoadedPlugin:
    """Asks a plugin for everything that it brings.

    Args:
        name: The plugin's name.
        thing: What its entry point names: a module, an object, or a class, of which one instance is made (with
            `settings`, if it takes them).
        settings: Its settings, handed to it read-only.

    Raises:
        pluggy.PluginValidationError: A hook takes arguments that there aren't.
        BaseException: Whatever the class raised.
    """
    handed = MappingProxyType(dict(settings))
    loaded = LoadedPlugin(name, by_name(thing, ("settings",))(handed) if inspect.isclass(thing) else thing)
    _find_implementations(loaded)
    errors = [
        error
        for hook in REGISTER_HOOKS
        if hook in loaded.implementations and (error := _ask(loaded, hook, handed)) is not None
    ]
    if errors and not loaded.brought_anything:
        raise errors[0]
    return loaded


def imported(module: str, attribute: str | None) -> Any:
    """What an entry point names: a module, or something in it (`"Guard"`, `"plugins.Guard"`)."""
    from importlib import import_module

    thing: Any = import_module(module)
    for part in (attribute or "").split("."):
        thing = getattr(thing, part) if part else thing
    return thing


def _find_implementations(loaded: LoadedPlugin) -> None:
    """Lets pluggy find and check them, in a manager of their own, so that a failure leaves nothing behind."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(loaded.plugin, loaded.name)
    for caller in manager.get_hookcallers(loaded.plugin) or ():
        for implementation in caller.get_hookimpls():
            if caller.spec is not None:
                _keep(loaded, caller.name, implementation)
            elif not implementation.optionalhook:
                near = did_you_mean(suggest(caller.name, _KNOWN_HOOKS))
                loaded.faults.append(f"there is no hook {caller.name!r}.{near}")


def _keep(loaded: LoadedPlugin, hook: str, implementation: pluggy.HookImpl) -> None:
    if implementation.wrapper or implementation.hookwrapper:
        loaded.faults.append(f"{hook} can't be a wrapper; implement pegboard_wrap_tool or pegboard_wrap_model")
    else:
        loaded.implementations[hook] = implementation


def _ask(loaded: LoadedPlugin, hook: str, settings: Mapping[str, Any]) -> BaseException | None:
    """Calls one register hook; what it raises costs what it hadn't registered yet, and is given back."""
    offered = {"register": _REGISTERS[hook](loaded, hook), "settings": settings}
    implementation = loaded.implementations[hook]
    try:
        answer = implementation.function(*(offered[name] for name in implementation.argnames))
        if inspect.iscoroutine(answer):
            answer.close()
            raise TypeError("it is async; register hooks are plain functions")  # noqa: TRY301  reported like the rest
    except (Exception, SystemExit) as error:  # noqa: BLE001  a plugin's code may raise anything
        loaded.faults.append(f"{hook} raised {cause_of(error)}")
        return error
    return None


def _register_tool(loaded: LoadedPlugin, _hook: str) -> Callable[[Any], None]:
    def register(thing: Any) -> None:
        from pegboard.tools.typed import as_tools

        try:
            tools = as_tools(thing)
        except Exception as error:  # noqa: BLE001  a plugin's object may raise anything when it is looked at
            loaded.faults.append(str(error) if isinstance(error, PegboardError) else cause_of(error))
            return
        for tool in tools:
            if any(earlier.name == tool.name for earlier in loaded.tools):
                loaded.faults.append(f"tool {tool.name!r} is registered twice; the first is kept")
            else:
                loaded.tools.append(tool)

    return register


def _register_toolset(loaded: LoadedPlugin, _hook: str) -> Callable[[Any], None]:
    def register(toolset: Any) -> None:
        from pegboard.toolsets.toolset import is_toolset

        if is_toolset(toolset):
            loaded.toolsets.append(toolset)
        else:
            loaded.faults.append(f"{toolset!r} is no toolset: it needs a name and an async method tools(context)")

    return register


def _register_extra(loaded: LoadedPlugin, hook: str) -> Callable[[str, Any], None]:
    kind = _KINDS[hook]

    def register(name: str, thing: Any) -> None:
        of_kind = loaded.extras.setdefault(kind, {})
        if name in of_kind:
            loaded.faults.append(f"{kind[:-1]} {name!r} is registered twice; the first is kept")
        elif kind == "processors" and (fault := _processor_fault(name, thing)) is not None:
            loaded.faults.append(fault)
        else:
            of_kind[name] = thing

    return register


def _processor_fault(name: str, thing: Any) -> str | None:
    """Why something can't be a request processor, or `None`."""
    from pegboard.request.processors import check_processor

    try:
        check_processor(name, thing)
    except RegistrationError as error:
        return str(error)
    return None


_REGISTERS: Final[dict[str, Callable[[LoadedPlugin, str], Callable[..., None]]]] = {
    "pegboard_register_tools": _register_tool,
    "pegboard_register_toolsets": _register_toolset,
    **dict.fromkeys(_KINDS, _register_extra),
}


def _command_names(loaded: LoadedPlugin) -> tuple[str, ...]:
    """The names of the commands that the plugin adds to `registry`; a hook that raises is a fault."""
    implementation = loaded.implementations.get("pegboard_register_commands")
    if implementation is None:
        return ()
    import click

    group = click.Group()
    try:
        implementation.function(*(group for _ in implementation.argnames))
    except (Exception, SystemExit) as error:  # noqa: BLE001  a plugin's code may raise anything
        loaded.faults.append(f"pegboard_register_commands raised {cause_of(error)}")
    return tuple(group.commands)


def manifest_of(loaded: LoadedPlugin, distribution: str | None, version: str | None) -> PluginManifest:
    """What the plugin brought, as data: its tools' specs, and the names of everything else."""
    from pegboard.plugins.manifest import PluginManifest, RequestFacts

    requests = {tool.name: RequestFacts.of(tool) for tool in loaded.tools}
    return PluginManifest(
        plugin=loaded.name,
        distribution=distribution,
        version=version,
        tools=tuple(tool.spec for tool in loaded.tools),
        hooks=loaded.hooks,
        toolsets=tuple(toolset.name for toolset in loaded.toolsets),
        commands=_command_names(loaded),
        faults=tuple(loaded.faults),
        requests={name: facts for name, facts in requests.items() if facts != RequestFacts()},
        **{kind: tuple(things) for kind, things in loaded.extras.items()},
    )
