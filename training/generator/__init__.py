"""Fine-tuning of the generator: samples from our own retrieval, then LoRA on a published chat model."""

import retriever.models  # noqa: F401  first: it lets transformers be imported beside a torchvision of another PyTorch
