"""The methods: a folder for each paper, and what they share."""
