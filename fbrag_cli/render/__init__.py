"""A `Trace` becomes text on a terminal, JSON or Markdown. Knows nothing of how the trace came about."""
