"""The progress of a training: a bar, and how long all steps will take, as soon as the first ones are measured."""

from __future__ import annotations

import logging

from tqdm import tqdm

from indexes.progress import bars_shown, progress_bar
from retriever.wording import counted, duration
from training.checkpoint import RunState
from training.config import Optimization

logger = logging.getLogger(__name__)

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
