"""`pegboard.toml`, and where the user's files are."""
