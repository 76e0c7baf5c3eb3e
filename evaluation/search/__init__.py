"""Evaluation of search agents: tasks of MMSearch, MMSearch-Plus and other data sets, their scores and trajectories."""
