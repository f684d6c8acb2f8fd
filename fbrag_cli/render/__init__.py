"""Renders traces and the list of models: terminal text, Markdown, JSON, HTML. Loads no model."""
