"""A plain re-creation of step 2's published training loop, from facts about it, not from its code.

Every sample decodes 17 images and encodes each with the frozen tower; every text is tokenized again and padded to the
model's maximum length; the question, the evidence and the 15 negatives go through the Q-Former with eager attention;
AdamW and OneCycleLR; no cache, no sharing within a batch.
"""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.data import DataLoader, Dataset
from transformers import Blip2QFormerConfig, Blip2QFormerModel

from retriever.images import load_image
from retriever.models.qformer import QFormerFusion
from retriever.models.text_tokenizer import padded
from retriever.texts import blip_caption, section_passage
from training.losses import contrastive_loss, mean_max_sim
from training.reranker.batches import Order
from training.reranker.data import RerankerData
from training.reranker.model import Reranker
from training.reranker.samples import SampleSet


class PublishedLoop:
    """The published loop, re-created from what is known of it."""

    def __init__(
        self,
        fusion: QFormerFusion,
        data: RerankerData,
        samples: SampleSet,
        device: torch.device,
        precision: str,
        workers: int,
        batch_size: int,
    ):
        self.model = Reranker(fusion, False).to(device).train()
        self.layers = their_layers(fusion)
        self.device, self.precision = device, getattr(torch, precision)
        self.optimizer = adamw(self.model)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, max_lr=1e-5, pct_start=0.3, div_factor=100.0, total_steps=1_000_000
        )
        dataset = PublishedSamples(data, samples, fusion)
        batches = Order(samples.training, batch_size, 1, 1, 0)
        order = [int(sample) for step in range(10_000) for sample in batches.part(step, 0, 0)[1]]
        self.loader = iter(
            DataLoader(dataset, batch_size, sampler=order, num_workers=workers, pin_memory=device.type == "cuda")
        )

    def step(self) -> float:
        """Trains a step; returns its loss."""
        pixels, ids, mask = (tensor.to(self.device, non_blocking=True) for tensor in next(self.loader))
        fusion = self.model.fusion
        self.layers.train(self.model.training)
        self.optimizer.zero_grad()
        with torch.autocast(self.device.type, self.precision, enabled=self.precision != torch.float32):
            with torch.no_grad():
                features = fusion.vision_features(fusion.pixels.normalize(pixels.flatten(0, 1).float() / 255))
            tokens = fuse_all(fusion, self.layers, features, ids.flatten(0, 1), mask.flatten(0, 1)).float()
        tokens = tokens.view(len(pixels), 17, *tokens.shape[1:])
        loss = contrastive_loss(mean_max_sim(tokens[:, 0], tokens[:, 1:]), self.model.temperature)
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        return float(loss.detach())


class PublishedSamples(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """Samples as the published loader makes them: 17 images decoded, 17 texts tokenized and padded."""

    def __init__(self, data: RerankerData, samples: SampleSet, fusion: QFormerFusion):
        self.samples, self.tokenizer, self.pixels = samples, fusion.tokenizer, fusion.pixels
        self.length, self.folder = fusion.max_text_tokens, data.negatives.parent
        entities = (data.index.entity(row) for row in range(len(data.index)))
        self.passages = [section_passage(e.title, s.title, s.text) for e in entities for s in e.sections]
        self.questions = [question for question in data.questions if not isinstance(question, ValueError)]

    def __len__(self) -> int:
        """Returns the number of samples."""
        return len(self.samples)

    def __getitem__(self, sample: int) -> tuple[Tensor, Tensor, Tensor]:
        """Returns pixels, token ids and mask of the question and its 16 candidates."""
        generator = np.random.default_rng([0, 0, sample, 1])  # same draws as the trainer in its first epoch
        sections, _ = self.samples.draw(sample, generator, "pooled")
        question = self.questions[sample]
        files = [self.folder / "queries" / f"{question.image_id}.jpg"]
        files += [self.folder / "images" / f"{entity}.jpg" for entity in self.samples.entity_of(sections)]
        pixels = torch.cat([self.pixels.to_uint8([load_image(file)]) for file in files])
        words = [question.question, *(self.passages[section] for section in sections)]
        texts = [blip_caption(text) for text in words]
        rows = self.tokenizer(texts, truncation=True, max_length=self.length)["input_ids"]
        return pixels, *padded(rows, self.tokenizer.pad_token_id, self.length)


def their_layers(fusion: QFormerFusion) -> nn.Module:
    """Returns transformers' Q-Former of the same sizes, with eager attention as in LAVIS, without memory."""
    with torch.device("meta"):
        layers = Blip2QFormerModel(Blip2QFormerConfig(**asdict(fusion.config), use_qformer_text_input=True))
    layers.set_attn_implementation("eager")
    return layers


def fuse_all(fusion: QFormerFusion, layers: nn.Module, features: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
    """Fuses images and texts with all outputs of all `their_layers`, as LAVIS does, and the weights of `fusion`."""
    length = fusion.token_shape[0]
    given = {
        "query_embeds": fusion.embedded(ids),
        "query_length": length,
        "attention_mask": torch.cat([mask.new_ones(len(mask), length), mask], dim=1),
        "encoder_hidden_states": fusion.vision_norm(features),
    }
    output = functional_call(layers, dict(fusion.qformer.named_parameters()), kwargs=given)
    tokens: Tensor = output.last_hidden_state[:, :length]
    return tokens


def adamw(model: nn.Module) -> torch.optim.AdamW:
    """Returns the published optimizer."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.AdamW(trained, lr=1e-5, betas=(0.9, 0.98), eps=1e-7, weight_decay=0.05)
