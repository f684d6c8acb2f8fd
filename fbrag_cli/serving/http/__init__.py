"""HTTP: the routes of the warm process, for programs, pages and commands of its user."""
