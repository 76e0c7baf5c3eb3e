"""Data sets, metrics, runs, report."""
