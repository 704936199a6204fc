"""The conversation as data: messages, what they are made of, and what a model answered."""
