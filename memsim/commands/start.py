"""Where the program `memsim` begins. It imports little at first, because until then Ctrl-C is Python's own."""

import sys

from memsim.commands.process import fix_hashes, interruptible, open_standard_streams


def main() -> int:
    """Runs the command line of the process; returns its exit code."""
    with interruptible() as begin:
        open_standard_streams()
        fix_hashes()
        from memsim.commands.cli import main as run

        begin()
        return run()


if __name__ == "__main__":
    sys.exit(main())
