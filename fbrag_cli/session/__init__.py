"""What every front end needs to run a question."""
