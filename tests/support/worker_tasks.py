"""Tasks for worker processes, in a module that they import quickly."""

from __future__ import annotations

import os
import signal
import time


def nap(k: int) -> int:
    time.sleep(0.01)
    return k


def nap_pid(k: int) -> int:
    time.sleep(0.01)
    return os.getpid()


def die_at_5(k: int) -> int:
    if k == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return k


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
