"""REQUEST: the request to a model, and its export to a provider's wire format."""
