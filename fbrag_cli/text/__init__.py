"""Text: words and terms, languages, printable characters."""
