"""What documents mean: which parts are furniture, sections, facts, images and ids. One understanding for all readers."""
