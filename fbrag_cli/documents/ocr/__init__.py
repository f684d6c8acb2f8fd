"""Text of scanned pages and of pictures, by OCR."""
