"""Shared code of model provider plugins, for their authors: clients, and block-based message formats."""
