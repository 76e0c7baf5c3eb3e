"""Training of the embedded weights: random flags, imagined countries and the runs. Not part of the wheel."""
