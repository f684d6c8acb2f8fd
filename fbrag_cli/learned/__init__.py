"""Forward passes of small trained parts of methods, and the format of their files. Nothing here needs torch."""
