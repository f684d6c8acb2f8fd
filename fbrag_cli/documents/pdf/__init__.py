"""PDFs become text: pages, their lines in reading order, without headers and footers."""
