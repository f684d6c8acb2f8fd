"""The server: one session, whose models and indexes stay loaded, answers other programs."""
