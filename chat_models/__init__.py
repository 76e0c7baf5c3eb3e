"""Chat models on any OpenAI-compatible server: the client, the prompts, and cutting texts to a model's context."""
