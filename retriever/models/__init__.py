"""The models of the steps. Models see images, texts and tensors, never requests."""
