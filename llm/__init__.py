"""Chat models on any OpenAI-compatible server: the client, the prompts, and texts cut to a model's context."""
