"""Models of the warm process (`fbrag serve`), which it lends to the commands of its user."""
