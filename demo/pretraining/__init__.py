"""How the embedded weights are made: random flags, imagined countries, and the training runs. Not part of the wheel."""
