"""Trains the embedded weights: random flags, imagined countries and the training runs. Not part of the wheel."""
