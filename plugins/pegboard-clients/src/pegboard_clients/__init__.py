"""What the packages of model providers share, for authors of such plugins: clients, and formats of content blocks."""
