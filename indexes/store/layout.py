"""Names that most modules of an index share."""

from __future__ import annotations

THUMBNAILS = "images"
"""The folder with the thumbnails of main images, `<row>.jpg`."""
REBUILD = "rebuild with `omgm build-index --overwrite`"
"""What to do about a damaged index."""
