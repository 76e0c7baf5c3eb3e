"""Renders the SVG on stdin as PNG on stdout: the program that `indexes.svg` runs for each image.

Recursive references, such as three patterns that fill each other, crash resvg by a stack overflow. A limit of levels
cannot prevent that.
"""

from __future__ import annotations

import sys

_STACK = 8 << 20
"""Largest stack, in bytes. Without a limit, endless recursion would fill the memory."""


def main() -> None:
    """Renders one SVG. The arguments are the folder of the package `resvg_py` and, to load fonts, `--fonts`."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        size, largest = resource.getrlimit(resource.RLIMIT_STACK)
        if size == resource.RLIM_INFINITY or size > _STACK:
            resource.setrlimit(resource.RLIMIT_STACK, (_STACK, largest))
    sys.path.append(sys.argv[1])
    import resvg_py  # an extra, found only now

    try:
        drawn = resvg_py.svg_to_bytes(
            svg_string=sys.stdin.buffer.read().decode(),
            background="#ffffff",
            skip_system_fonts="--fonts" not in sys.argv,
        )
    except ValueError as error:
        sys.exit(str(error))
    sys.stdout.buffer.write(bytes(drawn))


if __name__ == "__main__":
    main()
