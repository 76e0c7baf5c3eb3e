"""Web pages as images: a headless Chromium behind a proxy that decides which hosts it may reach."""
