"""One module a command: `add_arguments(parser)` and `run(args)`. Nothing heavy is imported before `run`."""
