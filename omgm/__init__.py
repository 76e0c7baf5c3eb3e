"""The command line: reads a profile and hands each part its own settings."""
