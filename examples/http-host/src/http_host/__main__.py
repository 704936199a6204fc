"""`python -m http_host`."""

from __future__ import annotations

from http_host.app import main

main()
