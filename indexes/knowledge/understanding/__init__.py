"""What documents mean: which parts are furniture, sections, facts, images and ids, once for all readers."""
