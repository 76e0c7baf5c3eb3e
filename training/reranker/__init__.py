"""Trains step 2: from questions and negatives to a fusion encoder. Start at train.py."""
