"""An index on disk: its files, its manifest, and the search in it."""
