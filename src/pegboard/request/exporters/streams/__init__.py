"""Answers that come in pieces: how much of one is read, and how it ends."""
