"""Changes to an index while it answers: a log, versions in memory, and compaction into new files. Start at index.py."""
