"""Live changes to an index: a log, versions in memory, and compaction into new files. Start at index.py."""
