"""Our replays against measured hardware: tables, pictures, errors.

    python -m experiments.hardware_validation --out DIR [--only v100-stencil] [--quick]

The same as `memsim reproduce hardware`: `index.html`, a PNG a picture and `summary.json` in DIR.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from experiments.hardware.studies import FIGURES, TITLE
from experiments.reproduction import reproduce


def main(arguments: Sequence[str] | None = None) -> None:
    """The command; see the module's text."""
    parser = argparse.ArgumentParser(prog="python -m experiments.hardware_validation")
    parser.add_argument("--out", type=Path, required=True, help="folder for page and pictures")
    parser.add_argument("--only", choices=sorted(FIGURES), help="one comparison")
    parser.add_argument("--quick", action="store_true", help="a few cases of each, in a minute")
    options = parser.parse_args(arguments)
    reproduce(TITLE, FIGURES, options.out, only=options.only, quick=options.quick)


if __name__ == "__main__":
    main()
