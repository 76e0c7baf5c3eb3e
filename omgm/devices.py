"""Decides whether a profile's models run on the CPU or on a GPU, without importing the models."""

from __future__ import annotations

from collections.abc import Callable

from omgm.settings import Profile


def sees_gpu() -> bool:
    """Returns whether PyTorch sees a GPU."""
    try:
        import torch
    except (ImportError, OSError):
        return False
    return torch.cuda.is_available()


def device_of(profile: Profile, gpu: Callable[[], bool] = sees_gpu) -> str:
    """Returns the device that a profile's models run on, "cpu" or "cuda"; for "auto", it is the GPU if there is one.

    Args:
        profile: The profile.
        gpu: Returns whether there is a GPU. Called only for "auto", because PyTorch initializes CUDA to answer, which
            nothing should do that runs on the CPU.
    """
    if profile.device != "auto":
        return profile.device
    return "cuda" if gpu() else "cpu"
