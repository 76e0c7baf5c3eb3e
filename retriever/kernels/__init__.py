"""Kernels of the hot path."""

from retriever.kernels.maxsim_torch import max_sim_pairs

__all__ = ["max_sim_pairs"]
