"""Asking a person: requests, answers, what they allow and for how long, and answers that come later."""
