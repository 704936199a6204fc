"""`registry models`: providers and their models; the default model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from pegboard.cli.options import Options, registry_options
from pegboard.cli.output import json_line, json_rows, remark, rows_text, stdout_screen, write
from pegboard.cli.session import open_session
from pegboard.errors import PACKAGES, ModelError
from pegboard.tools.visible import visible
from pegboard_chat.conversation import closing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click.shell_completion import CompletionItem

    from pegboard import Model
    from pegboard.cli.session import Session


def configured_model(session: Session) -> str | None:
    """The model named by the environment, or else by the settings."""
    return os.environ.get("PEGBOARD_MODEL") or session.config.settings("chat", "pegboard-chat").get("model")


def default_model(session: Session) -> str:
    """The model used if the command names none.

    Raises:
        click.UsageError: No default is configured.
    """
    name = configured_model(session)
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
    names = (f"{name}{slash}" for name in open_session(context.ensure_object(Options)).registry.known("models"))
    return [CompletionItem(name) for name in names if name.startswith(incomplete) and visible(name) == name]


def client_of(session: Session, name: str) -> Model:
    """The client of a model.

    Raises:
        click.ClickException: No plugin provides it, or it lacks a setting, such as a key.
    """
    try:
        return session.registry.model(name)
    except ModelError as error:
        raise click.ClickException(str(error)) from error


@click.command("models")
@click.argument("provider", required=False, shell_complete=complete_model)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@registry_options()
@click.pass_obj
def models_command(options: Options, provider: str | None, as_json: bool) -> int:
    """List the providers of models and the packages of others; or the models of PROVIDER.

    PROVIDER is queried, so its key is needed. The default of 'registry chat' is PEGBOARD_MODEL, or 'model' in
    [plugins.chat] of pegboard.toml.
    """
    session = open_session(options)
    default = configured_model(session)
    rows = [*_providers(session)] if provider is None else session.run(lambda: _asked(session, provider))
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
    remark(f"default: {default}" if default else "no default is set: PEGBOARD_MODEL, or 'model' in [plugins.chat]")
    return 0


def _providers(session: Session) -> Iterator[dict[str, Any]]:
    """Installed providers, and those of first-party packages that aren't installed."""
    registry, packages = session.registry, dict[str, str | None](PACKAGES["models"])
    for name, plugin in registry.catalogue.offered("models").items():
        packages[name] = registry.catalogue.plugins[plugin].distribution
    known = {*registry.known("models")}
    for name in sorted({*known, *packages}):
        package = packages.get(name)
        yield {"name": f"{name}/...", "installed": name in known, **({"package": package} if package else {})}


async def _asked(session: Session, provider: str) -> list[dict[str, Any]]:
    """Queries a provider for its models.

    Raises:
        click.ClickException: Its client can't list them.
    """
    async with closing(client_of(session, f"{provider}/-")) as model:
        if not hasattr(model, "models"):
            raise click.ClickException(f"{provider} can't list its models; its documentation names them")
        return [{"name": f"{provider}/{name}"} for name in sorted(await model.models())]
