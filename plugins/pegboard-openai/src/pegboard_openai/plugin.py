"""The hooks that register the exporters and the models, which are imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pegboard import hookimpl
from pegboard.lazy import lazy_call
from pegboard_clients.plugin import lazy_hook

if TYPE_CHECKING:
    from pegboard_openai.client import OpenAIChatModel
    from pegboard_openai.settings import Server


pegboard_register_exporters = lazy_hook(
    {
        "openai": "pegboard_openai.openai_chat:exporter",
        "openai-responses": "pegboard_openai.openai_responses:exporter",
    }
)


@hookimpl
def pegboard_register_models(register: Callable[[str, Any], None], settings: Mapping[str, Any]) -> None:
    """Registers the models `openai` (the responses API), `openai-chat` (chat completions), and one for each server.

    Args:
        register: Registers them with the registry.
        settings: `[plugins.openai]`, see `Server`.

    Raises:
        ValueError: A setting is unknown or wrong.
    """
    register("openai", lazy_call("pegboard_openai.client:OpenAIModel"))
    register("openai-chat", lazy_call("pegboard_openai.client:OpenAIChatModel"))
    if settings:
        from pegboard_openai.settings import servers_from

        for name, server in servers_from(settings).items():
            register(name, _of_server(name, server))


def _of_server(name: str, server: Server) -> Callable[..., OpenAIChatModel]:
    def make(model: str, **options: Any) -> OpenAIChatModel:
        from pegboard_openai.client import NO_KEY, OpenAIChatModel, server_exporter

        exporter = server_exporter(
            name, most_tokens=server.most_tokens, reasoning=server.reasoning, dialect=server.dialect
        )
        key = {"key_in": server.api_key_env} if server.api_key_env else {"api_key": server.api_key or NO_KEY}
        facts: dict[str, Any] = {"base_url": server.base_url, "exporter": exporter, **key, **options}
        return OpenAIChatModel(model, **facts)

    return make
