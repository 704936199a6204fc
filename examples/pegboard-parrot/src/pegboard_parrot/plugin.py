"""The hook that registers the exporter, which is imported on first use."""

from __future__ import annotations

from pegboard_clients.plugin import lazy_hook

pegboard_register_exporters = lazy_hook({"parrot": "pegboard_parrot.parrot:Parrot"})
