"""HTTP: the routes of the server, for programs, and the page."""
