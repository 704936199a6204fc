"""http-host: turns of a model behind an HTTP API."""
