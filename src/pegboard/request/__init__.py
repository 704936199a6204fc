"""REQUEST: what a model is asked, and how a provider says it."""
