"""What all tests need before anything else is imported."""

from __future__ import annotations

import retriever  # noqa: F401  makes torchvision importable beside a PyTorch for CPUs, also where transformers comes first
