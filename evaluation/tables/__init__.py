"""The paper's tables made again: what is measured (`runs`), beside what was published (`paper.toml`)."""
