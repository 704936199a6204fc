"""`registry models`: providers and their models; the default model."""

from __future__ import annotations

import os
import re
from contextlib import aclosing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from pegboard.cli import (
    Options,
    json_line,
    json_rows,
    open_session,
    registry_options,
    rows_text,
    stdout_screen,
    write,
    write_note,
)
from pegboard.config import key_names, with_secrets
from pegboard.errors import ModelError, first_party
from pegboard.text import visible
from pegboard_chat.conversation import closing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator

    from click.shell_completion import CompletionItem

    from pegboard import Model, ModelRequest, ModelResponse
    from pegboard.cli import Session


def model_in_settings(session: Session) -> str | None:
    """The model named by the environment, or else by the settings."""
    return os.environ.get("PEGBOARD_MODEL") or session.config.settings("chat", "pegboard-chat").get("model")


def default_model(session: Session) -> str:
    """The model used if the command names none.

    Raises:
        click.UsageError: No default is configured.
    """
    name = model_in_settings(session)
    if name is None:
        raise click.UsageError(
            "Missing option '-m' / '--model'. PEGBOARD_MODEL, or model = \"...\" in [plugins.chat] of pegboard.toml, "
            "sets a default; 'registry models' lists providers."
        )
    return name


def complete_model(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Completes names of providers; their models aren't known without asking them."""
    from click.shell_completion import CompletionItem

    slash = "" if parameter.name == "provider" else "/"
    known = open_session(context.ensure_object(Options)).registry.contributions.names("models")
    names = (f"{name}{slash}" for name in known)
    return [CompletionItem(name) for name in names if name.startswith(incomplete) and visible(name) == name]


class NamedModel:
    """Model whose errors begin with the name by which the user asked for it.

    Args:
        model: The model; it has all other attributes.
        name: Its name, such as `"openai/gpt-5"`.
    """

    def __init__(self, model: Model, name: str) -> None:
        self._model, self._name = model, name
        if (stream := getattr(model, "stream", None)) is not None:  # where `isinstance(..., StreamingModel)` finds it
            self.stream = partial(self._stream, stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def respond(self, request: ModelRequest) -> ModelResponse:
        """As the model does."""
        with self.name_model_in_errors():
            return await self._model.respond(request)

    async def _stream(self, stream: Any, request: ModelRequest) -> AsyncIterator[Any]:
        with self.name_model_in_errors():
            async with aclosing(stream(request)) as pieces:
                async for piece in pieces:
                    yield piece

    @contextmanager
    def name_model_in_errors(self) -> Generator[None]:
        """Context manager: a `ModelError` raised within it begins with the name that the user gave the model."""
        try:
            yield
        except ModelError as error:
            error.args = (f"{self._name}: {error.message}{_REFUSED_KEY if error.status == _UNAUTHORIZED else ''}",)
            raise


def client_of(session: Session, name: str) -> Any:
    """The client of a model; its key may also be stored under the name of its environment variable.

    Raises:
        click.ClickException: No plugin provides it, or it lacks a setting, such as a key.
    """
    shown = name.removesuffix("/-")  # to list its models
    try:
        return NamedModel(session.registry.model(name), shown)
    except ModelError as error:
        key = _KEY.search(error.message) if error.code == "missing_api_key" else None
        if key is None:
            raise click.ClickException(f"{shown}: {error.message}" if error.provider else str(error)) from error
        missing: list[str] = []
        stored = [each for each in key_names() if each in error.message]
        settings = with_secrets({"api_key": {"keyring": stored[0]}}, missing, []) if stored else {}
        if settings:
            return NamedModel(session.registry.model(name, **settings), shown)
        text = f"{error.message.partition(', or pass ')[0]}, or run: registry keys set {key[0]}"
        raise click.ClickException("; ".join([f"{shown}: {text}", *missing])) from error


_UNAUTHORIZED: Final = 401
_REFUSED_KEY: Final = " (if the API key is wrong, store another with 'registry keys set')"
_KEY: Final = re.compile(r"\b[A-Z]\w*_KEY\b")


@click.command("models")
@click.argument("provider", required=False, shell_complete=complete_model)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@registry_options()
@click.pass_obj
def models_command(options: Options, provider: str | None, as_json: bool) -> int:
    """List model providers, or the models of PROVIDER.

    PROVIDER is queried, so its key is needed. The default of 'registry chat' is PEGBOARD_MODEL, or 'model' in
    [plugins.chat] of pegboard.toml.
    """
    session = open_session(options)
    default = model_in_settings(session)
    rows = [*_providers(session)] if provider is None else session.run(lambda: _query(session, provider))
    if as_json:
        listed = json_rows("models", rows)
        write(f'{listed[:-2]},"default":{json_line(default)[:-1]}}}\n' if default else listed)
        return 0
    screen = stdout_screen()
    if provider is not None:
        write("".join(f"{visible(row['name'])}\n" for row in rows))
        return 0
    shown = [(row["name"], "installed" if row["installed"] else f"pip install {row['package']}") for row in rows]
    write(rows_text(("MODEL", "STATUS"), shown, screen))
    write_note(f"default: {default}" if default else "no default is set: PEGBOARD_MODEL, or 'model' in [plugins.chat]")
    return 0


def _providers(session: Session) -> Iterator[dict[str, Any]]:
    """Installed providers, and those of first-party packages that aren't installed."""
    registry, packages = session.registry, dict[str, str | None](first_party()["models"])
    for name, plugin in registry.contributions.catalogue.offered("models").items():
        packages[name] = registry.contributions.catalogue.plugins[plugin].distribution
    known = {*registry.contributions.names("models")}
    for name in sorted({*known, *packages}):
        package = packages.get(name)
        yield {"name": f"{name}/...", "installed": name in known, **({"package": package} if package else {})}


async def _query(session: Session, provider: str) -> list[dict[str, Any]]:
    """Queries a provider for its models.

    Raises:
        click.ClickException: Its client can't list them.
    """
    async with closing(client_of(session, f"{provider}/-")) as model:
        if not hasattr(model, "models"):
            raise click.ClickException(f"{provider} can't list its models; its documentation names them")
        with model.name_model_in_errors():
            return [{"name": f"{provider}/{name}"} for name in sorted(await model.models())]
