"""The hooks that register the exporter and the models, which are imported on first use."""

from __future__ import annotations

from pegboard_clients.plugin import lazy_hook

pegboard_register_exporters = lazy_hook({"bedrock": "pegboard_bedrock.bedrock:exporter"})
pegboard_register_models = lazy_hook({"bedrock": "pegboard_bedrock.client:BedrockModel"})
