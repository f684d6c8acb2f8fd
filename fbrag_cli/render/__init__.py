"""Rendering of a `Trace`: terminal text, Markdown, JSON and HTML. Knows nothing of models and retrievers."""
