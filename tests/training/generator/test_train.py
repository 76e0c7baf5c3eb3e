"""LoRA training of tiny models on a CPU: which weights it changes, what it learns, how it resumes."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import Trainer

from tests.fakes.processes import run_in_two
from tests.training.generator.beginning import begin_slowly, train_until_killed
from training.generator import train as module
from training.generator.config import GeneratorTrainingConfig
from training.generator.lora import add_adapter, language_linears, load_base, require_peft, save_adapter
from training.generator.rendering import IGNORED, Collator, PromptSettings, Renderer
from training.generator.samples import GeneratorSample
from training.generator.train import train_generator

pytest.importorskip("peft")

TEXT_ONLY, MULTIMODAL = PromptSettings(), PromptSettings(multimodal=True)
SMALL = GeneratorTrainingConfig(
    steps=6, batch_size=2, accumulate=2, learning_rate=5e-3, rank=4, lora_alpha=8, save_every=2
)
LINEARS = [
    *(f"self_attn.{name}_proj" for name in ("q", "k", "v", "o")),
    *(f"mlp.{name}_proj" for name in ("gate", "up", "down")),
]


class Killed(BaseException):
    """Ends training like a kill: nothing catches it."""


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The final models of the training runs in this test."""
    models: list[Any] = []

    def keep(model: Any, folder: Path, base: str, revision: str | None) -> None:
        models.append(model)
        save_adapter(model, folder, base, revision)

    monkeypatch.setattr(module, "save_adapter", keep)
    yield models


def train(base: Path, samples: Path, out: Path, config: GeneratorTrainingConfig = SMALL, **more: Any) -> dict[str, Any]:
    prompt = MULTIMODAL if "llava" in str(base) else TEXT_ONLY
    return train_generator(base, samples, out, prompt, config, **more)


def rows(out: Path) -> list[dict[str, float]]:
    with (out / "curve.csv").open() as file:
        return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]


def test_lora_is_on_the_language_models_linear_layers(llama: Path, llava: Path) -> None:
    assert language_linears(load_base(llama)) == [f"model.layers.{i}.{name}" for i in (0, 1) for name in LINEARS]
    # not the CLIP tower, which has layers q_proj, k_proj and v_proj too, nor the projector, nor lm_head
    inside = [f"model.language_model.layers.{i}.{name}" for i in (0, 1) for name in LINEARS]
    assert language_linears(load_base(llava)) == inside
    model = add_adapter(load_base(llava), SMALL)
    learned = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    sides = ("lora_A", "lora_B")
    assert learned == {f"base_model.model.{name}.{side}.default.weight" for name in inside for side in sides}


def test_an_adapter_of_a_multimodal_model(llava: Path, samples: Path, tmp_path: Path, trained: list[Any]) -> None:
    report = train(llava, samples, tmp_path, name="llava-hf/llava-1.5-7b-hf", revision="abc", commit="123")
    # rank 4 on layers of 16 x 16 (q, o), 8 x 16 (k, v), 24 x 16 (gate, up) and 16 x 24 (down), in two layers
    parameters = 2 * 4 * (2 * 32 + 2 * 24 + 3 * 40)
    assert report["metrics"].pop("train_loss") == pytest.approx(
        sum(row["loss"] for row in rows(tmp_path)) / 6, rel=1e-4
    )
    assert report["metrics"].pop("last_loss") == pytest.approx(rows(tmp_path)[-1]["loss"], rel=1e-4)
    assert report == json.loads((tmp_path / "training.json").read_text()) | {"metrics": report["metrics"]}
    assert report["kind"] == "generator" and report["commit"] == "123"
    assert report["environment"].keys() >= {"python", "torch", "transformers", "peft", "accelerate", "threads"}
    assert report["base"] == {"model": "llava-hf/llava-1.5-7b-hf", "revision": "abc"}
    assert report["data"]["samples"] == 6 and report["data"]["left_out"] == {}
    assert report["metrics"] == {"steps": 6, "epochs": 3.0, "trained_parameters": parameters}
    assert (report["settings"]["rank"], report["settings"]["multimodal"]) == (4, True)

    assert {path.name for path in tmp_path.iterdir()} - {"tensorboard"} == {
        "adapter",
        "checkpoints",
        "curve.csv",
        "curve.png",
        "training.json",
    }
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["run.json"]  # no pickles are left
    assert {path.name for path in (tmp_path / "adapter").iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
    }
    settings = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert (settings["base_model_name_or_path"], settings["revision"]) == ("llava-hf/llava-1.5-7b-hf", "abc")
    assert (settings["r"], settings["lora_alpha"], settings["lora_dropout"]) == (4, 8, 0.05)
    # vLLM 0.32.0 maps `model.language_model.` to its own `language_model.model.`
    assert set(load_file(tmp_path / "adapter" / "adapter_model.safetensors")) == {
        f"base_model.model.model.language_model.layers.{i}.{name}.{side}.weight"
        for i in (0, 1)
        for name in LINEARS
        for side in ("lora_A", "lora_B")
    }


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # asked for by peft 0.21
@pytest.mark.parametrize("kind", ["llama", "llava"])
def test_the_base_stays_and_the_saved_adapter_is_the_trained_model(
    kind: str,
    request: pytest.FixtureRequest,
    given: list[GeneratorSample],
    samples: Path,
    tmp_path: Path,
    trained: list[Any],
) -> None:
    from peft import PeftModel

    base: Path = request.getfixturevalue(kind)
    train(base, samples, tmp_path)
    before = load_base(base).state_dict()
    after = {
        name.replace(".base_layer.", "."): value for name, value in trained[0].get_base_model().state_dict().items()
    }
    assert before.keys() == {name for name in after if "lora_" not in name}
    assert all(torch.equal(value, after[name]) for name, value in before.items())

    loaded = PeftModel.from_pretrained(load_base(base), tmp_path / "adapter").eval()
    batch = Collator(Renderer(base, TEXT_ONLY if kind == "llama" else MULTIMODAL))(given[:2])
    with torch.no_grad():
        expected, found = trained[0].eval()(**batch).logits, loaded(**batch).logits
        untrained = load_base(base).eval()(**batch).logits
    assert torch.equal(found, expected)
    assert not torch.allclose(found, untrained, atol=1e-3)


def test_the_loss_is_that_of_the_answers_alone(
    llava: Path, given: list[GeneratorSample], samples: Path, tmp_path: Path
) -> None:
    """At first, an adapter has no effect, so the loss is the base model's mean over the tokens of all answers."""
    train(llava, samples, tmp_path, replace(SMALL, steps=1, batch_size=3, accumulate=2))
    renderer, model = Renderer(llava, MULTIMODAL), load_base(llava).eval()
    losses: list[Tensor] = []
    for sample in given:
        inputs = renderer(sample)
        labels = inputs.pop("labels")[0]
        with torch.no_grad():
            scores = model(**inputs).logits[0].float().log_softmax(-1)
        places = (labels != IGNORED).nonzero().flatten()
        losses += [-scores[place - 1, labels[place]] for place in places]
    # " 7 nm</s>" has six tokens, and every further sample one more
    assert len(losses) == 6 * 6 + 15
    assert rows(tmp_path)[0]["loss"] == pytest.approx(float(torch.stack(losses).mean()), rel=1e-5)


def test_the_rate_warms_up_and_falls_as_a_cosine(llama: Path, samples: Path, tmp_path: Path) -> None:
    train(llama, samples, tmp_path, replace(SMALL, steps=10, warmup=0.2))
    cosine = [0.5 * (1 + math.cos(math.pi * step / 8)) for step in range(8)]
    expected = [5e-3 * share for share in (0.0, 0.5, *cosine)]
    assert [row["learning_rate"] for row in rows(tmp_path)] == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_a_small_set_is_learned_by_heart(llava: Path, samples: Path, tmp_path: Path, trained: list[Any]) -> None:
    config = replace(
        SMALL, steps=30, batch_size=6, accumulate=1, learning_rate=3e-2, rank=16, lora_alpha=32, save_every=30
    )
    train(llava, samples, tmp_path, config)
    losses = [row["loss"] for row in rows(tmp_path)]
    assert losses[-1] < losses[0] / 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llama", "llava"])
def test_a_killed_run_ends_with_the_same_bytes(
    kind: str, request: pytest.FixtureRequest, samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base: Path = request.getfixturevalue(kind)
    whole = train(base, samples, tmp_path / "whole")
    render, rendered = Renderer.__call__, 0

    def counted(self: Renderer, sample: GeneratorSample) -> dict[str, Tensor]:
        nonlocal rendered
        rendered += 1
        if rendered == 19:
            raise Killed
        return render(self, sample)

    monkeypatch.setattr(Renderer, "__call__", counted)
    with pytest.raises(Killed):
        train(base, samples, tmp_path / "out")
    checkpoints = tmp_path / "out" / "checkpoints"
    assert [path.name for path in checkpoints.glob("checkpoint-*")] == ["checkpoint-4"]
    assert not (tmp_path / "out" / "adapter").exists()
    (checkpoints / "checkpoint-6").mkdir()  # a kill while it was written
    (checkpoints / "checkpoint-6" / "adapter_model.safetensors").write_bytes(b"half")

    monkeypatch.setattr(Renderer, "__call__", render)
    resumed = train(base, samples, tmp_path / "out")
    assert resumed == whole
    for name in ("adapter_model.safetensors", "adapter_config.json"):
        assert (tmp_path / "out" / "adapter" / name).read_bytes() == (
            tmp_path / "whole" / "adapter" / name
        ).read_bytes()
    times = {"seconds": 0.0}
    assert [row | times for row in rows(tmp_path / "out")] == [row | times for row in rows(tmp_path / "whole")]


def test_a_finished_run_is_not_repeated(
    llama: Path, samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = train(llama, samples, tmp_path)

    def never(*args: object) -> None:
        raise AssertionError("the adapter is there")

    monkeypatch.setattr(module, "load_base", never)
    assert train(llama, samples, tmp_path, replace(SMALL, save_every=3)) == report
    with pytest.raises(
        ValueError,
        match=r"run.json: made from other inputs .rank was \d+ and is now 8; seed was 0 and is now 1.; choose another",
    ):
        train(llama, samples, tmp_path, replace(SMALL, rank=8, seed=1))
    with pytest.raises(AssertionError, match="the adapter is there"):
        train(llama, samples, tmp_path, replace(SMALL, rank=8), overwrite=True)  # as the message suggests


@pytest.mark.slow
def test_checkpointed_activations_change_nothing(llava: Path, samples: Path, tmp_path: Path) -> None:
    plain, sparing = tmp_path / "plain", tmp_path / "sparing"
    config = replace(SMALL, steps=3, dropout=0.0)
    train(llava, samples, plain, config)
    train(llava, samples, sparing, replace(config, gradient_checkpointing=True))
    assert [row["loss"] for row in rows(sparing)] == pytest.approx([row["loss"] for row in rows(plain)], rel=1e-6)


def test_a_training_in_bfloat16_keeps_the_adapter_in_float32(llava: Path, samples: Path, tmp_path: Path) -> None:
    exact, half = tmp_path / "float32", tmp_path / "bfloat16"
    train(llava, samples, exact, replace(SMALL, steps=1))
    train(llava, samples, half, replace(SMALL, steps=1, dtype="bfloat16"))
    tensors = load_file(half / "adapter" / "adapter_model.safetensors")
    assert {value.dtype for value in tensors.values()} == {torch.float32}
    assert rows(half)[0]["loss"] == pytest.approx(rows(exact)[0]["loss"], rel=0.02)


@pytest.mark.parametrize("save_every", [1, 2, 100])
def test_a_loss_that_is_not_finite_ends_the_training(
    llama: Path, samples: Path, tmp_path: Path, save_every: int
) -> None:
    """The rate of the first step is 0, and the second step ruins the weights."""
    with pytest.raises(FloatingPointError, match=r"loss is (nan|inf) at step 3; a lower learning_rate may help"):
        train(llama, samples, tmp_path, replace(SMALL, learning_rate=1e30, save_every=save_every))
    assert [row["step"] for row in rows(tmp_path)] == [1, 2] and all(
        math.isfinite(row["loss"]) for row in rows(tmp_path)
    )
    saved = {path.name for path in (tmp_path / "checkpoints").glob("checkpoint-*")}
    assert saved == {1: {"checkpoint-2"}, 2: {"checkpoint-2"}, 100: set()}[save_every]
    assert not (tmp_path / "adapter").exists()


def test_too_little_memory_names_the_settings(
    llama: Path, samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def training_step(*args: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Trainer, "training_step", training_step)
    with pytest.raises(MemoryError, match=r"out of memory: use --gradient-checkpointing, a smaller --batch-size .*"):
        train(llama, samples, tmp_path / "plain")
    with pytest.raises(MemoryError, match=r"out of memory: use a smaller --batch-size .*--max-tokens, .*--rank"):
        train(llama, samples, tmp_path / "sparing", replace(SMALL, gradient_checkpointing=True))


def test_a_run_that_lacks_memory_may_resume_with_recomputed_activations(
    llama: Path, samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(llama, samples, tmp_path / "whole")
    stepped = Trainer.training_step

    def training_step(self: Trainer, *args: Any) -> Tensor:
        if self.state.global_step == 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return stepped(self, *args)

    monkeypatch.setattr(Trainer, "training_step", training_step)
    with pytest.raises(MemoryError):
        train(llama, samples, tmp_path / "out")
    monkeypatch.setattr(Trainer, "training_step", stepped)
    report = train(llama, samples, tmp_path / "out", replace(SMALL, gradient_checkpointing=True))
    assert report["settings"]["gradient_checkpointing"] is True
    losses = [[row["loss"] for row in rows(tmp_path / name)] for name in ("whole", "out")]
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)


def test_without_peft_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "peft" else object())
    with pytest.raises(ValueError, match=r"needs peft: pip install 'omgm\[peft\]'"):
        require_peft()


@pytest.mark.slow
def test_the_other_processes_wait_until_the_first_has_removed_what_it_replaces(tmp_path: Path) -> None:
    (tmp_path / "checkpoints" / "checkpoint-2").mkdir(parents=True)
    (tmp_path / "checkpoints" / "checkpoint-2" / "trainer_state.json").write_text("{}")
    (tmp_path / "checkpoints" / "run.json").write_text('{"samples": "old"}')
    run_in_two(begin_slowly, tmp_path)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["run.json"]
    assert json.loads((tmp_path / "checkpoints" / "run.json").read_text()) == {"samples": "new"}


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_processes(llama: Path, samples: Path, tmp_path: Path) -> None:
    config = replace(SMALL, steps=None, epochs=4, batch_size=1, accumulate=1, dropout=0.0)
    train(llama, samples, tmp_path / "alone", replace(config, accumulate=2))
    run_in_two(train_until_killed, llama, samples, tmp_path / "two", config, 5)
    report = train(llama, samples, tmp_path / "two", config)
    alone, two = rows(tmp_path / "alone"), rows(tmp_path / "two")
    assert [row["step"] for row in two] == list(range(1, 13))
    assert [row["learning_rate"] for row in two] == pytest.approx([row["learning_rate"] for row in alone])
    assert [row["loss"] for row in two] == pytest.approx(
        [row["loss"] for row in alone], rel=1e-4
    )  # of the same samples
    assert (report["settings"]["accumulate"], report["settings"]["processes"]) == (2, 1)
