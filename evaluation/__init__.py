"""Evaluates retrieval and answers: data sets, metrics, runs, comparisons, reports."""
