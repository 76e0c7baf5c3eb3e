"""The training loop of steps 1 and 2: a schedule, checkpoints to resume from, the best weights, a curve."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from tqdm import tqdm

from indexes.progress import bars_shown, progress_bar
from retriever.wording import counted, duration
from training.batch import read_later
from training.checkpoint import BEST_NAME, CHECKPOINT_NAME, RunState, load_best, resume, save, save_best
from training.config import Optimization
from training.curve import Curve
from training.muon import Muon
from training.processes import Processes, without_exchange

logger = logging.getLogger(__name__)

BETTER_BY = ("recall@1", "validation_loss")
"""The best validation of step 1 is the one with the highest recall and, among equals, the lowest loss."""


def train(
    model: nn.Module,
    loss_of: Callable[[int, int], Tensor],
    *,
    out: Path,
    optimization: Optimization,
    validate: Callable[[], dict[str, float]] | None = None,
    validate_every: int = 200,
    save_every: int = 200,
    better_by: tuple[str, str] | None = None,
    settings: dict[str, object] | None = None,
    wrapped: nn.Module | None = None,
    processes: Processes = Processes(),  # noqa: B008  frozen
) -> dict[str, float]:
    """Trains `model` in place; returns metrics with "steps" and "seconds".

    With `better_by`, its metrics are also returned for the initial weights ("start_…") and the last ones ("last_…").

    Resumes from `out/checkpoint.safetensors`, which contains no frozen parameters. PyTorch's global generator is seeded
    from (seed, step, part, rank) before every part, so a resumed run is bit-identical to an uninterrupted one, provided
    that `loss_of` derives all other randomness from its arguments. So is a run on a busy machine: the schedule follows
    the steps, and a time limit only ends a run, which goes on with a later one.

    Args:
        model: The model; its parameters with `requires_grad` are trained.
        loss_of: Maps a step and the number of its part to a scalar loss; the losses of all parts are added up. It may
            use autocast.
        out: Folder for the checkpoint, `best.safetensors`, `curve.csv`, `curve.png` and TensorBoard events.
        optimization: Limits, learning rate, seed and number of parts.
        validate: Returns metrics of the model; called in every process, in eval mode and without gradients.
        validate_every: Steps between two validations, and between two rows of the curve.
        save_every: Steps between two checkpoints.
        better_by: The metric to maximize, and the one to minimize among equals. The model ends with the weights of the
            best validation, which may be the initial ones; without `better_by`, with the last ones.
        settings: Other values that a resumed run must share, as plain JSON.
        wrapped: `model` as returned by `Processes.wrap`, if `loss_of` calls that.
        processes: The processes that train; the first one writes all files.

    Raises:
        ValueError: The checkpoint has other settings or is of another model; the message names the difference.
        FloatingPointError: The loss is not finite.
    """
    agreed: dict[str, object] = {**optimization.agreed, "processes": processes.count, **(settings or {})}
    out.mkdir(parents=True, exist_ok=True)
    optimizer = _optimizer(model, optimization)
    state = resume(out / CHECKPOINT_NAME, model, optimizer, agreed)
    curve = Curve(out, state.step) if processes.first else None
    bar = TrainingProgress(out.name, optimization, state, validate_every, processes.first)
    losses = _Losses(state)
    started = time.monotonic() - state.seconds

    def elapsed() -> float:
        seconds = time.monotonic() - started
        # The first process's clock decides, because all processes must stop at the same step.
        return seconds if optimization.minutes is None else processes.broadcast(seconds)

    def validated() -> dict[str, float]:
        assert validate is not None
        model.eval()
        with torch.no_grad():
            metrics = validate()
        model.train()
        return metrics

    def keep_if_better() -> None:
        if better_by is not None and processes.first and _better(state, better_by):
            save_best(out / BEST_NAME, model)
            state.best = dict(state.metrics)

    model.train()
    if state.step == 0 and validate is not None and better_by is not None:  # a short run may find nothing better
        state.metrics = state.start = validated()
        bar.validated(elapsed())
        keep_if_better()
    finished = optimization.over(state.step, state.seconds)
    while not finished:
        share = (state.step + 0.5) / optimization.steps
        rate = optimization.rate(share)
        beta = optimization.schedule.beta(share)
        for group in optimizer.param_groups:
            group["lr"] = rate
            if beta is not None:
                group["betas"] = (beta, optimization.betas[1])
        optimizer.zero_grad(set_to_none=True)
        loss = _backward(wrapped or model, loss_of, state.step, optimization, processes)
        if optimization.clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), optimization.clip)
        optimizer.step()
        losses.add(state.step, loss)
        state.step += 1
        state.seconds = elapsed()
        finished = optimization.over(state.step, state.seconds)
        if state.step % validate_every == 0 or finished:
            losses.read()
            if validate is not None:
                state.metrics = validated()
                keep_if_better()
            mean = sum(processes.gather(state.loss_sum / state.loss_count)) / processes.count
            state.loss_sum, state.loss_count = 0.0, 0
            state.seconds = elapsed()
            if curve is not None:
                curve.add(state.step, mean, rate, state.seconds, state.metrics)
            bar.measured = {"loss": mean, **state.metrics}
            # Validation takes time, too.
            finished = optimization.over(state.step, state.seconds)
        bar.update(state)
        if state.step % save_every == 0 or finished:
            losses.read()
            processes.wait()  # until every process has found its loss finite
            if processes.first:
                save(out / CHECKPOINT_NAME, model, optimizer, state, agreed)
    bar.close()
    processes.wait()
    compared = {
        f"{when}_{name}": metrics[name]
        for when, metrics in (("start", state.start), ("last", state.metrics))
        for name in better_by or ()
        if name in metrics
    }
    if better_by is not None and (out / BEST_NAME).is_file():
        load_best(out / BEST_NAME, model)
        state.metrics = processes.broadcast(state.best)
    model.eval()
    if curve is not None:
        curve.close()
    return {**state.metrics, **compared, "steps": float(state.step), "seconds": state.seconds}


def _backward(
    model: nn.Module,
    loss_of: Callable[[int, int], Tensor],
    step: int,
    optimization: Optimization,
    processes: Processes,
) -> Tensor:
    """Computes the gradients of all parts of a step; returns the step's loss in this process, a scalar."""
    total: Tensor | None = None
    for part in range(optimization.accumulate):
        # With one part and one process, this is just the seed and the step.
        torch.manual_seed(optimization.seed * 1_000_003 + step + 7_919 * (processes.rank + processes.count * part))
        with without_exchange(model, part < optimization.accumulate - 1):
            loss = loss_of(step, part)
            loss.backward()
        total = loss.detach() if total is None else total + loss.detach()
    assert total is not None  # accumulate is at least 1
    return total


class _Losses:
    """Adds the losses of steps to a state and checks them, each while a GPU already computes the step after it.

    Args:
        state: The state; it lacks the loss that was added last until `read`.
    """

    def __init__(self, state: RunState):
        self._state = state
        self._waiting: tuple[int, Callable[[], float]] | None = None

    def add(self, step: int, loss: Tensor) -> None:
        """Adds the loss of a step, and reads the one before.

        Raises:
            FloatingPointError: The loss before is not finite.
        """
        following = step, read_later(loss)
        self.read()
        self._waiting = following

    def read(self) -> None:
        """Reads the loss that was added last, if that has not been done; needed before anything is written.

        Raises:
            FloatingPointError: It is not finite.
        """
        if self._waiting is None:
            return
        (step, value_of), self._waiting = self._waiting, None
        value = value_of()
        if not math.isfinite(value):
            raise FloatingPointError(f"loss is {value} at step {step}; a lower learning_rate may help")
        self._state.loss_sum += value
        self._state.loss_count += 1


def _better(state: RunState, better_by: tuple[str, str]) -> bool:
    highest, lowest = better_by
    if not state.best:
        return True
    return (state.metrics[highest], -state.metrics[lowest]) > (state.best[highest], -state.best[lowest])


def _optimizer(model: nn.Module, optimization: Optimization) -> torch.optim.Optimizer:
    rate, betas, eps = optimization.learning_rate, optimization.betas, optimization.eps
    if optimization.optimizer == "muon":
        return Muon(model, rate, weight_decay=optimization.weight_decay, betas=betas, eps=eps)
    trained = [p for p in model.parameters() if p.requires_grad]
    decayed = [p for p in trained if p.ndim > 1 or optimization.decay_vectors]
    others = [p for p in trained if p.ndim <= 1 and not optimization.decay_vectors]
    groups = [
        {"params": decayed, "weight_decay": optimization.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=rate, betas=betas, eps=eps)


MEASURED = 5
"""Steps whose time is measured; the one before them also pays for what happens once."""


class TrainingProgress:
    """A bar over the completed share of a run, whose remaining time holds for either limit; shows both.

    Args:
        name: The run's name.
        optimization: Its limits.
        state: Where it starts.
        validate_every: Steps between two validations.
        shown: Whether to show anything.
    """

    def __init__(self, name: str, optimization: Optimization, state: RunState, validate_every: int, shown: bool):
        self.optimization, self._name, self._every, self._shown = (
            optimization,
            name,
            validate_every,
            shown and bars_shown(),
        )
        self.measured = dict(state.metrics)
        self._first, self._began, self._validation = state.step + 1, state.seconds, 0.0
        line = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"
        self._bar: tqdm[object] = progress_bar(
            total=1.0, initial=self._share(state), desc=name, bar_format=line, shown=shown
        )

    def validated(self, seconds: float) -> None:
        """Notes how long a validation takes."""
        self._validation = seconds

    def update(self, state: RunState) -> None:
        """Moves the bar to `state`."""
        if state.step == self._first:
            self._began = state.seconds
        if state.step == self._first + MEASURED:
            self._say(state, (state.seconds - self._began) / MEASURED + self._validation / self._every)
        steps, minutes = self.optimization.steps, self.optimization.minutes
        parts = [f"step {state.step} of {steps}"]
        if minutes is not None:
            parts.append(f"{state.seconds / 60:.1f} of {minutes:g} min")
        parts += [f"{name} {value:.3f}" for name, value in self.measured.items()]
        self._bar.set_postfix_str(", ".join(parts), refresh=False)
        self._bar.update(self._share(state) - self._bar.n)

    def close(self) -> None:
        """Ends the bar."""
        self._bar.close()

    def _share(self, state: RunState) -> float:
        steps, minutes = state.step / self.optimization.steps, self.optimization.minutes
        return steps if minutes is None else min(1.0, max(steps, state.seconds / (60 * minutes)))

    def _say(self, state: RunState, per_step: float) -> None:
        """Says how many steps there are, how long they take, and where a time limit will probably end them."""
        steps, minutes = self.optimization.steps, self.optimization.minutes
        left = (steps - state.step) * per_step
        said = f"{self._name}: {counted(steps, 'step')}, about {duration(state.seconds + left)}"
        if minutes is not None and state.seconds + left > 60 * minutes:
            reached = max(1, state.step + int((60 * minutes - state.seconds) / per_step))
            said += (
                f"; the limit of {minutes:g} minutes will end them near step {reached:,}: --steps {reached} would "
                "plan the learning rate for that"
            )
        if self._shown:
            tqdm.write(said, file=self._bar.fp)
        else:
            logger.info("%s", said)
