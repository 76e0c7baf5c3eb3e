"""Types of numeric arguments."""

from __future__ import annotations

import argparse
import math
from typing import TypeVar

Number = TypeVar("Number", int, float)


def positive(text: str) -> int:
    """Parses an integer of at least 1."""
    return _checked(number := int(text), number >= 1, "at least 1")


def natural(text: str) -> int:
    """Parses an integer of at least 0, such as the seed of a random number generator."""
    return _checked(number := int(text), number >= 0, "at least 0")


def port(text: str) -> int:
    """Parses the number of a TCP port."""
    return _checked(number := int(text), 1 <= number <= 65535, "between 1 and 65535")


def above_zero(text: str) -> float:
    """Parses a finite number above 0."""
    return _checked(number := float(text), 0 < number < math.inf, "above 0")


def probability(text: str) -> float:
    """Parses a number between 0 and 1."""
    return _checked(number := float(text), 0 <= number <= 1, "between 0 and 1")


def replica_range(text: str) -> tuple[int, int]:
    """Parses a number of replicas, such as "2", or a range, such as "1-4".

    Raises:
        argparse.ArgumentTypeError: The text is neither.
    """
    least, dash, most = text.partition("-")
    try:
        numbers = int(least), int(most if dash else least)
    except ValueError:
        numbers = 0, 0
    if not 1 <= numbers[0] <= numbers[1]:
        raise argparse.ArgumentTypeError(f"expected a number of replicas or a range such as 1-4, got {text!r}")
    return numbers


def _checked(number: Number, valid: bool, what: str) -> Number:
    if not valid:
        raise argparse.ArgumentTypeError(f"must be {what}, got {number}")
    return number
