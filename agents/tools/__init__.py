"""The tools of agents: an index, pages, images."""
