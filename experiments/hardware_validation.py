"""Our replays against measured hardware: tables, pictures, errors; and measuring anew.

    python -m experiments.hardware_validation --out DIR [--only v100-stencil] [--quick]
    python -m experiments.hardware_validation --capture [--out DIR] [--kernel NAME]

The first is `memsim reproduce hardware`: `index.html`, a PNG a picture and `summary.json` in DIR. The
second measures the benchmark kernels on this machine's GPU and keeps them as one JSON file in DIR (by
default where `--only captured` reads).
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.hardware.capture import FOLDER, capture, launch_once
from experiments.hardware.captured import captured
from experiments.hardware.studies import FIGURES, TITLE
from experiments.reproduction import MakeFigure, reproduce
from memsim.commands import EXIT_INTERRUPTED
from memsim.errors import MemsimError


def main(arguments: Sequence[str] | None = None) -> None:
    """The command; see the module's text. Exits with 2 and one line for what a user can mend."""
    try:
        _run(_parser().parse_args(arguments))
    except MemsimError as error:
        print(f"hardware_validation: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("hardware_validation: interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.hardware_validation")
    parser.add_argument("--out", type=Path, help="folder for page and pictures, or for a capture")
    parser.add_argument("--only", choices=sorted(FIGURES), help="one comparison")
    parser.add_argument("--quick", action="store_true", help="few cases, or small kernels")
    parser.add_argument(
        "--captures", type=Path, default=FOLDER, metavar="DIR", help="where captures are read from"
    )
    measuring = parser.add_argument_group("measuring on this machine")
    measuring.add_argument("--capture", action="store_true", help="measure instead of comparing")
    measuring.add_argument(
        "--kernel", action="append", default=[], metavar="NAME", help="only this; may be repeated"
    )
    measuring.add_argument("--device", default="", help="OpenCL platform:device instead of a GPU")
    measuring.add_argument("--machine", help="the shipped machine that the device is")
    measuring.add_argument("--trials", type=int, default=60, help="of each kernel [60]")
    measuring.add_argument("--launch-once", action="store_true", help=argparse.SUPPRESS)
    return parser


def _run(options: argparse.Namespace) -> None:
    if options.launch_once:
        (name,) = options.kernel
        launch_once(name, options.quick)
    elif options.capture:
        capture(
            out=options.out or FOLDER,
            kernels=options.kernel,
            device=options.device,
            machine=options.machine,
            trials=options.trials,
            quick=options.quick,
        )
    elif options.out is None:
        raise MemsimError("--out DIR is wanted: a folder for page and pictures")
    else:
        figures: dict[str, MakeFigure] = dict(FIGURES)
        figures["captured"] = functools.partial(captured, folder=options.captures)
        reproduce(TITLE, figures, options.out, only=options.only, quick=options.quick)


if __name__ == "__main__":
    main()
