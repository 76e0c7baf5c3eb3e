"""An index in parts, each served by a process of its own."""
