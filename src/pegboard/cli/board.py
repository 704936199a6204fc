"""The board that a command looks at: configuration, installed plugins, and the functions of `--functions`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import evolve, frozen

from pegboard.cli.aside import aside
from pegboard.cli.options import Options
from pegboard.config.config import Config, load_config
from pegboard.errors import ConfigError, DuplicateToolError, ExpressionError, UnknownToolError, suggest
from pegboard.registry import ToolRegistry
from pegboard.tools.context import NOBODY, ReadonlyContext
from pegboard.tools.tool import Tool

if TYPE_CHECKING:
    from pegboard.plugins.discovery import Discovery
    from pegboard.toolsets.predicate import Predicate
    from pegboard.toolsets.resolve import ResolvedTools

T = TypeVar("T")


@frozen(eq=False)
class Board:
    """What a command looks at.

    Attributes:
        registry: The board itself.
        config: What was configured.
        options: What the run was asked for.
        discovery: What is installed.
        clash: What `conflicts = "error"` says of this board, where it was opened all the same; `None` where nothing.
    """

    registry: ToolRegistry
    config: Config
    options: Options
    discovery: Discovery
    clash: ConfigError | None = None

    def where(self, *predicates: Predicate | str | None) -> Predicate | None:
        """All of these and `-T`, joined; `None` where nothing is asked.

        Raises:
            ExpressionError: A text doesn't parse.
        """
        given = [self._read(part) for part in (*predicates, limit(self.options.only)) if part is not None]
        if not given:
            return None
        from pegboard.toolsets.predicates import all_of

        return all_of(*given)

    def _read(self, predicate: Predicate | str) -> Predicate:
        from pegboard.toolsets.expression import as_predicate

        try:
            return as_predicate(predicate, self.registry.catalogue.extras.get("predicates"))
        except ExpressionError:
            if not self._brings("pegboard_register_predicates"):
                raise
            # A word may be a plugin's that isn't imported yet: resolving imports those that bring predicates.
            self.run(self.registry.resolve)
            return as_predicate(predicate, self.registry.catalogue.extras.get("predicates"))

    def resolved(
        self, *where: Predicate | str | None, context: ReadonlyContext = NOBODY, live: bool = False
    ) -> ResolvedTools:
        """What this context is offered.

        Args:
            where: Predicates besides `-T` and the configuration's.
            context: For whom.
            live: Whether toolsets are asked, as they are with `--live`; without it nothing is imported.
        """
        asked = self.where(*where)
        default = self.default()
        if live or self.options.live:
            return self.run(lambda: self.registry.resolve(context, where=asked))
        return self._resolved_static(asked, context, default)

    def default(self) -> Predicate | None:
        """The configuration's predicate.

        Raises:
            ConfigError: It doesn't parse; with the file that says it.
        """
        if self.config.where is None:
            return None
        try:
            return self._read(self.config.where)
        except ExpressionError as error:
            raise self._of_file(error) from error

    def _of_file(self, error: ExpressionError) -> ConfigError:
        """The same in the words of the file whose own predicate is wrong."""
        from pegboard.config.config import parse_config, read_config

        for file in self.config.files:
            own = parse_config(read_config(file) or b"", file).get("where")
            try:
                if own is not None:
                    self._read(own)
            except ExpressionError as of_file:
                return ConfigError(str(of_file), file=file, key="where")
        return ConfigError(str(error), file=", ".join(self.config.files), key="where")

    def _resolved_static(
        self, where: Predicate | None, context: ReadonlyContext, default: Predicate | None
    ) -> ResolvedTools:
        from pegboard.toolsets.resolve import resolve_candidates, settled_names

        candidates = settled_names(self.registry.tools(), ())
        with aside():  # a predicate may be a plugin's
            return resolve_candidates(candidates, context, where=where, default=default)

    def _brings(self, hook: str) -> bool:
        """Whether a plugin implements this hook."""
        return any(hook in plugin.hooks for plugin in self.registry.plugins())

    def asks_live(self, name: str) -> bool:
        """Whether only asking toolsets can tell what this name is: no static tool has it."""
        if name in self.registry.catalogue.tools:
            return False
        return self._brings("pegboard_register_toolsets") or bool(self.registry.catalogue.toolsets)

    def find(self, name: str) -> Tool:
        """The tool of this name, whatever the configuration's predicate says of it.

        Raises:
            UnknownToolError: There is none, or `-T` leaves it out; with near misses.
        """
        live = self.asks_live(name)
        offered = self.resolved(live=True) if live else self._resolved_static(self.where(), NOBODY, None)
        tool = offered.get(name)
        if tool is None:
            raise UnknownToolError(name, suggest(name, offered.names))
        return tool

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs a coroutine to its end, and closes what the board has opened; prints of others go to standard error."""
        from pegboard.cli.loop import run_to_end

        async def closing() -> T:
            async with self.registry:
                return await work()

        with aside():
            return run_to_end(closing())


def open_board(options: Options, discovery: Discovery | None = None, *, anyway: bool = False) -> Board:
    """The board with everything that is configured and installed.

    Args:
        options: What the run was asked for.
        discovery: What is installed, where that has been found out already.
        anyway: Whether plugins that clash don't matter: then `conflicts = "error"` is told in `Board.clash`.

    Raises:
        ConfigError: A configuration is wrong, or plugins clash where it says `conflicts = "error"`.
    """
    config = configured(options)
    if discovery is None:
        from pegboard.plugins.discovery import discover

        discovery = discover()
    clash: ConfigError | None = None
    with aside():
        try:
            registry = load_registry(config, options, discovery)
        except DuplicateToolError as error:
            clash = _clash(error, config)
            if not anyway:
                raise clash from error
            registry = load_registry(evolve(config, conflicts="keep"), options, discovery)
        if options.functions:
            from pegboard.cli.functions import register_functions

            register_functions(registry, map(Path, options.functions))
    return Board(registry, config, options, discovery, clash)


def _clash(error: DuplicateToolError, config: Config) -> ConfigError:
    text = (
        f'is "error", and {error.held_by} and {error.wanted_by} both bring a tool {error.name!r}; '
        "give one another name ([rename], [prefix]), or leave one out (block); 'registry doctor' tells of all clashes"
    )
    return ConfigError(text, file=_file_that_says("conflicts", config), key="conflicts")


def _file_that_says(key: str, config: Config) -> str:
    """The last of the files that has a key."""
    from pegboard.config.config import parse_config, read_config

    ignored = {one.file for one in config.ignored if one.key == key}
    saying = [file for file in config.files if key in parse_config(read_config(file) or b"", file)]
    return next((file for file in reversed(saying) if file not in ignored), "configuration")


def configured(options: Options) -> Config:
    """What the user, the project and `--config` say.

    Raises:
        ConfigError: Any of it is wrong.
    """
    return load_config(project="search", explicit=None if options.config is None else Path(options.config))


def load_registry(config: Config, options: Options, discovery: Discovery) -> ToolRegistry:
    """The registry with the installed plugins; a first load shows how far it is."""
    from pegboard.cli.progress import Status
    from pegboard.plugins.load import load

    with Status() as status:
        return load(
            config=config,
            refresh=options.refresh,
            live=options.live,
            discovery=discovery,
            progress=lambda number, of, name: status.show(f"loading plugin {name}", number / of),
        )


def limit(specs: Sequence[str]) -> str | None:
    """The predicate that `-T` stands for: `git_*,plugin:files` is `name:git_* or plugin:files`."""
    from pegboard.toolsets.predicate import written

    parts: list[str] = []
    for item in ",".join(specs).split(","):
        key, colon, value = item.strip().rpartition(":")
        if value or colon:
            parts.append(f"{key if colon else 'name'}:{written(value)}")
    return " or ".join(parts) or None
