"""Modes: ways to answer besides retrieval, found by the entry points `omgm.modes` of this package and of others.

An entry point names a `ModeFamily`:

    [project.entry-points."omgm.modes"]
    mine = "my_package.modes:MINE"
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, runtime_checkable

from retriever.entry_points import named, targets

if TYPE_CHECKING:
    from omgm.settings import Profile
    from retriever.protocols import DualEncoder
    from retriever.searching import Searcher
    from serving.modes import Mode, Modes

logger = logging.getLogger(__name__)

GROUP = "omgm.modes"
T = TypeVar("T")


class ModeUnavailable(ValueError):
    """What a mode needs is missing; a service goes on without it."""


@runtime_checkable
class WrittenAnswer(Protocol):
    """An optional extension of a mode's answer that can also be written as an image."""

    def write(self, path: Path) -> None:
        """Writes the trail: JSON, or an image if the file's name ends in `.svg`."""


@dataclass(frozen=True, slots=True)
class ModeContext:
    """What a mode is made of.

    Attributes:
        profile: The profile.
        searcher: The index with its retrieval steps and generator.
        encoder: The profile's model of step 1.
        closing: Closes, in the event loop of the runs, what the modes open.
        corpus: Where searches, pages and replies are recorded or replayed.
        record: Whether to record what the corpus lacks.
        may_propose: Whether a mode that is better with regions may propose some where the settings do not.
    """

    profile: Profile
    searcher: Searcher
    encoder: DualEncoder
    closing: AsyncExitStack
    corpus: Path | None = None
    record: bool = False
    may_propose: bool = False
    _shared: dict[object, Any] = field(default_factory=dict)

    def share(self, make: Callable[[ModeContext], T]) -> T:
        """Returns `make(self)`, which is called once: all modes share its result."""
        if make not in self._shared:
            self._shared[make] = make(self)
        return cast(T, self._shared[make])


@dataclass(frozen=True, slots=True)
class ModeFamily:
    """Modes that are made alike.

    Attributes:
        names: Returns their names; imports nothing that a mode needs.
        open: Makes one of them; raises as `open_mode`.
    """

    names: Callable[[], Sequence[str]]
    open: Callable[[str, ModeContext], Mode]


def _families() -> dict[str, ModeFamily]:
    """Returns the family of each mode."""
    families = [named(GROUP, name, {}, ModeFamily) for name in targets(GROUP)]
    return {name: family for family in families for name in family.names()}


def mode_names() -> Sequence[str]:
    """Returns the names of all modes."""
    return tuple(_families())


def open_mode(name: str, context: ModeContext) -> Mode:
    """Makes a mode.

    Raises:
        ValueError: Its entry point is broken, or a setting is missing.
        ModeUnavailable: The mode needs something that is not here.
    """
    return _families()[name].open(name, context)


def modes_of(profile: Profile, encoder: DualEncoder) -> Modes | None:
    """Returns the modes of a service, or `None` if no chat model is set."""
    from serving.modes import Modes
    from serving.schemas import AgentBudget

    if not (profile.generator.base_url and profile.generator.model):
        return None

    def opened(searcher: Searcher, closing: AsyncExitStack) -> Mapping[str, Mode]:
        context, modes = ModeContext(profile, searcher, encoder, closing), {}
        for name in mode_names():
            try:
                modes[name] = open_mode(name, context)
            except ModeUnavailable as error:
                logger.warning("the mode %s is not offered: %s", name, error)
        return modes

    settings = profile.agents
    limits = AgentBudget(rounds=settings.rounds, tokens=settings.tokens, seconds=settings.seconds, money=settings.money)
    return Modes(opened, limits, settings.runs)
