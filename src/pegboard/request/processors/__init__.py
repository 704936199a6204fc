"""The request processors that come with pegboard, one a file; `default_pipeline` has their order."""
