"""The command line: one module a command. Each parses, calls, renders and exits; none computes."""
