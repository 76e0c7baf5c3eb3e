"""The tools of agents: for indexes, pages and images."""
