"""Chat models behind any OpenAI-compatible server: the client, prompts, and texts cut to a model's context."""
