"""One module for each system of the papers: (question, corpus, retriever, models, settings, progress) to a `Trace`."""
