"""Comparison of methods on questions with known answers: datasets, metrics, the resumable runner, statistics and reports."""
