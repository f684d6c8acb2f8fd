"""The training of R2AG: lists of passages, the R2-Former, LoRA."""
