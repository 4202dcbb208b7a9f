"""The process of a command: its standard streams, its hashes, and Ctrl-C, which ends it in one line.

Python loses an interrupt that arrives in a destructor, and an import may turn one into another error. So
during imports Ctrl-C ends the process at once, and a lost one is sent again.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_INTERRUPTED = 130
_SENT_AGAIN_AFTER_S = 0.02
_IMPORT = "<frozen importlib._bootstrap>"
"""The file of the frames between an import and the module that it runs."""


@contextmanager
def interruptible() -> Iterator[Callable[[], None]]:
    """Until what it yields is called, Ctrl-C ends the process at once; then it ends the command."""
    if signal.getsignal(signal.SIGINT) != signal.default_int_handler:  # as under nohup
        yield lambda: None
        return

    def begin() -> None:
        signal.signal(signal.SIGINT, _interrupt)
        sys.unraisablehook = _send_again

    signal.signal(signal.SIGINT, _end)
    try:
        yield begin
    finally:
        signal.signal(signal.SIGINT, _end)


def open_standard_streams() -> None:
    """Streams that are closed become the null device: a file that is opened must not take their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest free number
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115


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
