"""Where the program `memsim` begins. What it imports first is little, because Ctrl-C is Python's own until then."""

from memsim.commands.process import fix_hashes, interruptible


def main() -> int:
    """Runs the command line of the process; returns its exit code."""
    with interruptible() as begin:
        fix_hashes()
        from memsim.commands.cli import main as run

        begin()
        return run()
