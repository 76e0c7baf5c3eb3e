"""Every image of an index finds itself, on whatever ground, however large, with the embedded models."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import httpx2 as httpx
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter

from omgm import OMGM
