"""Step 3's sentence encoder learns which section of an article answers a question."""
