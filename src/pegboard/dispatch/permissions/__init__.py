"""Permissions: rules and modes that decide which calls run, which are refused, and which a person is asked about."""
