"""Trains the model of the extractive reader. Start at `train.py`."""
