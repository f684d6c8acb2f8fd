"""Small trained parts of methods: their forward passes, and the file format of their folders. No torch."""
