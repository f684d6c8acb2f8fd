"""`python -m fbrag_cli` is `fbrag`."""

from fbrag_cli.cli.main import main

main()
