"""One module for each system of the papers: a question and a corpus become a `Trace`. Knows nothing of files or terminals."""
