"""`Plugin`: one plugin of a registry, and what it brings, hook by hook."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from attrs import field

from pegboard.callbacks import ONLY, Callback, accept_keywords
from pegboard.catalogue import CALLBACK_STAGES, EMPTY, EXTRAS, PluginRecord, limit_of
from pegboard.config import Config, with_secrets
from pegboard.contributions import is_toolset
from pegboard.errors import PegboardError, PluginError, SchemaError, cause_of, did_you_mean, hide, suggest
from pegboard.plugins.manifest import PluginManifest
from pegboard.plugins.side_effects import LOAD_SECONDS, run_in_thread, watch_side_effects
from pegboard.tools.spec import Origin
from pegboard.tools.tool import Tool
from pegboard.tools.visible import visible_spec
from pegboard.toolsets.toolset import OwnedToolset
from pegboard.typing import define

if TYPE_CHECKING:
    import pluggy

    from pegboard.tools.services import ServiceScope

_T = TypeVar("_T")
_MOST_NAME: Final = 1_000
GUARDS: Final = "pegboard_guards_calls"
NEEDS_POSIX: Final = "pegboard_needs_posix"
NOT_HERE: Final = "it works on Linux and macOS, but not on Windows"


@define(eq=False)
class Plugin:
    """Plugin of a registry: as it is listed, and, once loaded, with everything that it brought."""

    origin: Origin  # its tools and toolsets carry it
    fetch: Callable[[], Any]  # imports it; gives its module, its object, or a class, of which one instance is made
    settings: Mapping[str, Any]
    manifest: PluginManifest = field(factory=lambda: PluginManifest(""))  # what it is expected to bring
    record: PluginRecord = field(init=False)  # its present record
    config: Config | None = None  # what its registry was loaded with
    is_listed: bool = False  # whether it is registered from its manifest
    listed: dict[str, Tool] = field(factory=dict[str, Tool])  # its tools as they were then, by their names in its code
    live: dict[str, Tool] = field(factory=dict[str, Tool])  # those with their code that are as they were listed
    failure: PluginError | None = None  # why it can't be loaded, or `None`
    denying: Callback | None = None  # the callback that denies all calls while it isn't loaded, or `None`
    is_loaded: bool = False  # whether everything below is complete
    lock: threading.RLock = field(factory=threading.RLock)
    thing: Any = None  # its object
    implementations: dict[str, list[pluggy.HookImpl]] = field(factory=dict[str, Any])  # by hook name
    callbacks: dict[str, list[tuple[pluggy.HookImpl, Callback]]] = field(factory=dict[str, Any])  # by stage
    tools: list[Tool] = field(factory=list[Tool])  # in the order of registration
    toolsets: list[OwnedToolset] = field(factory=list[OwnedToolset])  # likewise
    extras: dict[str, dict[str, Any]] = field(factory=dict[str, dict[str, Any]])  # kind -> name -> thing
    faults: list[str] = field(factory=list[str])  # what was refused, one sentence each; everything else works
    secrets: list[str] = field(factory=list[str], repr=False)  # of its settings, which are hidden in its faults

    def __attrs_post_init__(self) -> None:
        self.record = PluginRecord(self.name, self.origin.distribution, self.origin.version, "listed")

    @property
    def name(self) -> str:
        """Its name."""
        return self.origin.plugin or ""

    @property
    def names(self) -> dict[str, list[str]]:
        """The names of what it brings besides tools, by kind."""
        return {"toolsets": [each.name for each in self.toolsets]} | {kind: [*own] for kind, own in self.extras.items()}

    @property
    def hooks(self) -> tuple[str, ...]:
        """The hooks that it implements, sorted."""
        return tuple(sorted(self.implementations))

    @property
    def guards(self) -> bool:
        """Whether it guards calls, by its manifest or its object."""
        return GUARDS in self.manifest.hooks or inspect.getattr_static(self.thing, GUARDS, None) is not None

    def load(self) -> None:
        """Imports it, calls its register hooks and checks what it brings; raises what that does, without secrets."""
        self.thing = self.fetch()
        if os.name != "posix" and inspect.getattr_static(self.thing, NEEDS_POSIX, None) is not None:
            raise PluginError(self.name, NOT_HERE, distribution=self.origin.distribution)
        resolved = MappingProxyType(with_secrets(self.settings, self.faults, self.secrets))
        try:
            if inspect.isclass(self.thing):
                make = accept_keywords(self.thing, ("settings", "given"))
                self.thing = make(resolved, MappingProxyType(self.settings))
            _find_implementations(self)
            hooks = ((hook, each) for hook in _REGISTERS for each in self.implementations.get(hook, ()))
            errors = [error for hook, each in hooks if (error := _call_hook(self, hook, each, resolved)) is not None]
            if errors and not (self.callbacks or self.tools or self.toolsets or self.extras):
                raise errors[0]  # noqa: TRY301  hidden below, as what the class raises is
        except BaseException as error:
            if not shows(error, self.secrets):
                raise
            raise RuntimeError(cause_of(error, self.secrets)) from None
        self.faults = [hide(fault, self.secrets) for fault in self.faults]


def shows(error: BaseException, secrets: Sequence[str]) -> bool:
    """Whether the text or a note of an exception, or of one that it comes from, shows a secret, or can't be read."""
    found: list[Any] = [error] if secrets else []
    try:
        for each in found:  # grows by those that it comes from
            if hide(text := "\n".join((str(each), *getattr(each, "__notes__", ()))), secrets) != text:
                return True
            cause = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
            found += [new for new in (cause, *getattr(each, "exceptions", ())) if new is not None and new not in found]
    except Exception:  # noqa: BLE001  its `__str__` may raise anything
        return True
    return False


def load_plugin(origin: Origin, thing: Any, settings: Mapping[str, Any]) -> Plugin:
    """Calls the register hooks of a plugin and validates what it brings.

    `thing` is what its entry point names: a module, an object, or a class, of which one instance is made, with
    `settings` if it takes them. The settings are passed read-only, with the secrets that they refer to.

    Raises `pluggy.PluginValidationError` if a hook takes unknown arguments, and whatever the class raised; a
    `RuntimeError` in place of one whose text shows a secret.
    """
    plugin = Plugin(origin, lambda: thing, settings)
    plugin.load()
    return plugin


def load_within(load: Callable[[], _T], notes: list[str], seconds: float = LOAD_SECONDS) -> _T:
    """Imports or loads a plugin in a thread, within a time limit; `notes` gets its side effects, a few words each.

    Raises `TimeoutError`, and whatever the plugin does: a `RuntimeError` for its `KeyboardInterrupt`, which isn't the
    user's. The text of an error that only a thread causes says what to do.
    """
    with watch_side_effects(notes):
        try:
            return run_in_thread(seconds, load)
        except (ValueError, RuntimeError) as error:
            if "main thread" in str(error) or "no current event loop" in str(error):
                where = "plugins are loaded in a thread, without an event loop"
                advice = f"{where}: its author has to do this when a tool runs"
                error.args = (f"{str(error).removesuffix('.')}; {advice}",)
            raise


def _find_implementations(plugin: Plugin) -> None:
    """Has pluggy find and check them, in a separate manager, so that a failure leaves nothing behind."""
    import pluggy  # listing needs neither

    from pegboard.plugins import hookspecs

    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(plugin.thing, plugin.name)
    hooks = dict.fromkeys(manager.get_hookcallers(plugin.thing) or ())  # pluggy 1.6 names one for each implementation
    for caller, implementation in [(hook, each) for hook in hooks for each in hook.get_hookimpls()]:
        name = caller.name
        if caller.spec is None:
            if not implementation.optionalhook:
                known = (name for name in vars(hookspecs) if name.startswith("pegboard_"))
                plugin.faults.append(f"there is no hook {name!r}.{did_you_mean(suggest(name, known))}")
        elif implementation.wrapper or implementation.hookwrapper:
            wrappers = "pegboard_wrap_call, pegboard_wrap_tool or pegboard_wrap_model"
            plugin.faults.append(f"{name} can't be a wrapper; implement {wrappers}")
        else:
            plugin.implementations.setdefault(name, []).append(implementation)
            if (stage := name.removeprefix("pegboard_")) in CALLBACK_STAGES:
                callback = _callback(plugin, stage, implementation)
                plugin.callbacks.setdefault(stage, []).append((implementation, callback))
    plugin.faults += map("{} is never called: put @hookimpl above it".format, hookspecs.unmarked_hooks(plugin.thing))


def _callback(plugin: Plugin, stage: str, implementation: pluggy.HookImpl) -> Callback:
    function = accept_keywords(implementation.function, CALLBACK_STAGES[stage])
    if stage == "approve_call" and not plugin.origin.trusted:
        from pegboard.dispatch.approval.queue import reduce_to_rejections

        plugin.faults.append("it approves calls and isn't trusted: only its rejections count")
        function = reduce_to_rejections(function)
    limit = None if stage == "check_tools" else limit_of(stage, getattr(implementation.function, ONLY, None))
    return Callback(function, f"plugin {plugin.name!r}", limit, plugin=plugin.name)


def _call_hook(plugin: Plugin, hook: str, own: pluggy.HookImpl, settings: Mapping[str, Any]) -> BaseException | None:
    """Calls one register hook; returns what it raises, which loses only what it hadn't registered yet."""
    offered = {"register": partial(_REGISTERS[hook], plugin), "settings": settings, "config": plugin.config}
    try:
        answer = own.function(*(offered[name] for name in own.argnames))
        if inspect.iscoroutine(answer):
            answer.close()
            raise TypeError("it is async; register hooks are plain functions")  # noqa: TRY301  reported like the rest
        if answer is not None:
            what = f"{hook} returns a {type(answer).__name__}, which is ignored"
            plugin.faults.append(f"{what}: call register(...) for each thing that it brings")
    except (Exception, SystemExit) as error:  # noqa: BLE001  a plugin's code may raise anything
        plugin.faults.append(f"{hook} raised {cause_of(error, plugin.secrets)}")
        return error
    return None


def _register_tools(plugin: Plugin, *things: Any) -> None:
    from pegboard.tools.typed import tools_from

    for thing in things:
        try:
            tools = tools_from(thing, foreign=True)
        except Exception as error:  # noqa: BLE001  a plugin's object may raise anything
            plugin.faults.append(str(error) if isinstance(error, PegboardError) else cause_of(error, plugin.secrets))
            continue
        for tool in tools:
            if any(earlier.name == tool.name for earlier in plugin.tools):
                plugin.faults.append(f"tool {tool.name!r} is registered twice; the first counts")
                continue
            try:
                plugin.tools.append(tool.evolve(spec=visible_spec(tool.spec), origin=plugin.origin))
            except SchemaError as error:
                plugin.faults.append(str(error))


def _register_toolset(plugin: Plugin, toolset: Any) -> None:
    if is_toolset(toolset):
        plugin.toolsets.append(OwnedToolset(toolset, plugin.origin))
    else:
        plugin.faults.append(f"{toolset!r} isn't a toolset: it needs a name and an async method tools(context)")


def _register_extra(kind: str, plugin: Plugin, name: str, thing: Any) -> None:
    of_kind = plugin.extras.setdefault(kind, {})
    if type(name) is not str or not 0 < len(name) <= _MOST_NAME:  # pyright: ignore[reportUnnecessaryComparison]  a plugin may pass anything
        plugin.faults.append(f"a name among {kind} has to be a text of 1 to {_MOST_NAME:,} characters")
    elif name in of_kind:
        plugin.faults.append(f"{kind[:-1]} {name!r} is registered twice; the first counts")
    else:
        try:
            EMPTY.with_extra(kind, name, thing, plugin.origin)  # for its checks
            of_kind[name] = thing
        except ValueError as error:
            plugin.faults.append(str(error))


def _register_service(plugin: Plugin, kind: Any, thing: Any, *, scope: ServiceScope | None = None) -> None:
    from pegboard.tools.services import Services, path_of_kind

    try:
        _register_extra("services", plugin, path_of_kind(kind), Services().provide(kind, thing, scope=scope))
    except TypeError as error:
        plugin.faults.append(str(error))


_REGISTERS: Final[dict[str, Callable[..., None]]] = {
    "pegboard_register_tools": _register_tools,
    "pegboard_register_toolsets": _register_toolset,
    **{f"pegboard_register_{kind}": partial(_register_extra, kind) for kind in EXTRAS},
    "pegboard_register_services": _register_service,
}
"""The `register` of each register hook, which gets the plugin first; the hooks are called in this order."""
