"""Where the program `memsim` begins: Ctrl-C ends it in one line, also while Python imports its modules.

Python loses an interrupt that arrives in a destructor, and an import may turn one into another error. So
during imports Ctrl-C ends the process at once, and a lost one is sent again.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

EXIT_INTERRUPTED = 130
_SENT_AGAIN_AFTER_S = 0.02
_IMPORT = "<frozen importlib._bootstrap>"
"""The file of the frames between an import and the module that it runs."""


def main() -> int:
    """Runs the command line of the process; returns its exit code."""
    heeded = signal.getsignal(signal.SIGINT) == signal.default_int_handler  # not so under nohup
    if heeded:
        signal.signal(signal.SIGINT, _end)
    fix_hashes()
    from memsim.commands.cli import main as run

    if heeded:
        signal.signal(signal.SIGINT, _interrupt)
        sys.unraisablehook = _send_again
    try:
        return run()
    finally:
        if heeded:
            signal.signal(signal.SIGINT, _end)


def fix_hashes() -> None:
    """Starts the program again without random hashes. Loopy orders the conditions of a kernel by hashes, so
    that compiled code and predicted times would differ from one run to the next.

    Ctrl-C waits until the new start comes here too."""
    if "PYTHONHASHSEED" not in os.environ and sys.executable:
        os.environ["PYTHONHASHSEED"] = "0"
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"memsim: interrupted\n")
    os._exit(EXIT_INTERRUPTED)


def _interrupt(number: int, frame: FrameType | None) -> None:
    caller = frame
    while caller is not None:
        if caller.f_code.co_filename == _IMPORT:
            _end(number, frame)
        caller = caller.f_back
    raise KeyboardInterrupt


def _send_again(lost: sys.UnraisableHookArgs) -> None:
    """Python would print an interrupt in a destructor, and go on."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        main_thread = threading.main_thread().ident
        threading.Timer(
            _SENT_AGAIN_AFTER_S, signal.pthread_kill, [main_thread, signal.SIGINT]
        ).start()
    else:
        sys.__unraisablehook__(lost)
