"""Reproduces the paper's tables: figures measured here (`runs`) beside the published ones (`paper.toml`)."""
