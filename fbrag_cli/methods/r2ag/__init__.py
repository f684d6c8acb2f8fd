"""R2AG (Ye et al., 2024)."""
