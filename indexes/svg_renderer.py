"""Renders the SVG on stdin as PNG on stdout: the program that `indexes.svg` runs for each image.

A few hundred bytes of SVG can crash resvg (such as three patterns that fill each other, by a stack overflow), and 1 KB
can take hours or all memory. Rules about the content cannot prevent that, so this process has limits, and only it reads
the XML, which may expand as well.
"""

from __future__ import annotations

import math
import re
import sys
from xml.etree.ElementTree import Element, fromstring, tostring

SIDE = 512  # longest side of a rendered SVG, in pixels
_STACK = 8 << 20
"""Largest stack, in bytes. Without a limit, endless recursion would fill the memory."""
_MEMORY = 1 << 30  # most memory, in bytes
_INSIDE = re.compile(r"#[^/\\]*|[ \t\r\n]*data:[^,]*,.*", re.DOTALL)
"""References within the file; resvg would read all others as paths."""
_NUMBER = re.compile(r"\s*(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?)\s*(?:px)?\s*", re.IGNORECASE)


def main() -> None:
    """Renders one SVG. The arguments are the folder of the package `resvg_py` and the most seconds of CPU time."""
    _limit(int(sys.argv[2]))
    sys.path.append(sys.argv[1])
    import resvg_py  # an extra, found only now

    try:
        root = fromstring(sys.stdin.buffer.read())
        text = any(element.tag.rpartition("}")[2] == "text" for element in root.iter())
        _prepare(root)
        drawn = resvg_py.svg_to_bytes(
            svg_string=tostring(root, "unicode"), background="#ffffff", skip_system_fonts=not text
        )
    except RecursionError:
        sys.exit("too many levels of elements")
    except MemoryError:
        sys.exit(f"it needs more than {_MEMORY >> 20} MiB of memory")
    except (SyntaxError, ValueError, LookupError) as error:  # bad XML is a `SyntaxError`
        sys.exit(str(error))
    sys.stdout.buffer.write(bytes(drawn))


def declared_size(root: Element) -> tuple[float, float]:
    """Returns the width and height that an SVG declares; `SIDE` if it declares none."""
    sides = [_NUMBER.fullmatch(root.get(key, "")) for key in ("width", "height")]
    if sides[0] and sides[1]:
        found = float(sides[0][1]), float(sides[1][1])
    else:
        try:
            box = [float(number) for number in re.split(r"[\s,]+", root.get("viewBox", "").strip())]
        except ValueError:
            box = []
        found = (box[2], box[3]) if len(box) == 4 else (SIDE, SIDE)
    return found if all(0 < side < math.inf for side in found) else (SIDE, SIDE)


def _prepare(root: Element) -> None:
    """Scales an SVG to `SIDE` and removes its references to other files."""
    for element in root.iter():
        for key, value in list(element.attrib.items()):
            if key.rpartition("}")[2] == "href" and not _INSIDE.fullmatch(value):
                del element.attrib[key]
    width, height = declared_size(root)
    scale = SIDE / max(width, height)
    root.set("viewBox", root.get("viewBox") or f"0 0 {width:g} {height:g}")
    root.set("width", f"{width * scale:g}")  # resvg rejects some SVGs that declare only one of the two
    root.set("height", f"{height * scale:g}")


def _limit(seconds: int) -> None:
    """Limits the memory, stack and CPU time of this process; the system ends it if it needs more."""
    if sys.platform == "win32":
        return
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for kind, most in [
        (resource.RLIMIT_STACK, _STACK),
        (resource.RLIMIT_DATA, _MEMORY),
        (resource.RLIMIT_CPU, seconds),
    ]:
        size, largest = resource.getrlimit(kind)
        if size == resource.RLIM_INFINITY or size > most:
            resource.setrlimit(kind, (most, largest))


if __name__ == "__main__":
    main()
