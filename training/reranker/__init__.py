"""Step 2's training: from questions and negatives to a fusion encoder. Start at train.py."""
