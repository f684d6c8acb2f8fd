"""Many questions about many documents: jobs, and the rows of their results."""
