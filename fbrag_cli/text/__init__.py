"""Text as every home needs it: words, languages, printable characters."""
