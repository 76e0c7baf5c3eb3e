"""The routes of OpenAI's API."""

from __future__ import annotations

from serving.chat import add_chat_routes
from serving.responses import add_responses_route

OPENAI = (add_chat_routes, add_responses_route)
"""What `serving.app.create_app` takes to answer chat completions and responses, too."""
