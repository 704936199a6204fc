"""The hooks that register the exporters and the models, which are imported on first use."""

from __future__ import annotations

from pegboard_clients.plugin import lazy_hook

pegboard_register_exporters = lazy_hook(
    {"gemini": "pegboard_google.gemini:exporter", "gemini-schema": "pegboard_google.gemini:schema_exporter"}
)
pegboard_register_models = lazy_hook({"google": "pegboard_google.client:GoogleModel"})
