"""What exporters share: calls, bodies, streams and blocks of wire formats; public for authors of exporters."""
