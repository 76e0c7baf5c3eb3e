"""Screenshots of web pages: a headless Chromium behind a proxy that decides which hosts it may reach."""
