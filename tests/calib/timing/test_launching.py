"""Building in a thread: when it ends, how often it happens, and errors of programs."""

from __future__ import annotations

import warnings
from typing import Any

import loopy as lp
import numpy as np
import pytest

from calib.timing import launching
from calib.timing.launching import built_beside, prepared
from calib.timing.trials import time_kernel
from memsim.errors import KernelError
from tests.support.loopy_kernels import make

pytestmark = pytest.mark.filterwarnings("ignore::loopy.diagnostic.LoopyWarning")


def doubled(name: str, **options: Any) -> Any:
    kernel = make("{[i]: 0 <= i < 64}", "b[i] = 2 * a[i]", "a: f4[64]; b: f4[64] out", name=name)
    kernel = lp.tag_inames(kernel, {"i": "l.0"})
    return lp.set_options(kernel, **options) if options else kernel


def test_no_program_is_built_after_the_block(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two kernels in three measurements: two builds, in a thread, finished before a kernel is
    timed."""
    import threading

    threads = []
    build = launching._built

    def noted(*given: Any) -> Any:
        threads.append(threading.current_thread())
        return build(*given)

    monkeypatch.setattr(launching, "_built", noted)
    one, other = doubled("built_once"), doubled("built_too")
    with built_beside([one, other, one], context):
        pass
    for kernel in (one, other):
        program = prepared(kernel, context).program
        assert program.done()
    assert len(threads) == 2
    assert threading.main_thread() not in threads
    timed = time_kernel(one, {"a": np.ones(64, np.float32)}, trials=2, context=context)
    assert timed.clock == "event"
    assert len(threads) == 2


def test_a_program_that_does_not_build_raises_when_run(context: Any) -> None:
    wrong = doubled("unbuildable", build_options=["-Dfloat=nonsense"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with built_beside([wrong], context):
            pass
    with pytest.raises(KernelError, match="unbuildable cannot be run"):
        time_kernel(wrong, {"a": np.ones(64, np.float32)}, context=context)


def test_types_that_are_known_only_at_run_time(context: Any) -> None:
    untyped = [lp.GlobalArg("a", shape=(64,)), lp.GlobalArg("b", shape=(64,), is_input=False)]
    kernel = make("{[i]: 0 <= i < 64}", "b[i] = 2 * a[i]", untyped, name="untyped")
    kernel = lp.tag_inames(kernel, {"i": "l.0"})
    with built_beside([kernel], context):
        pass
    for dtype in (np.float32, np.float64):
        given = {"a": np.ones(64, dtype)}
        assert time_kernel(kernel, given, trials=2, context=context).clock == "event"


def test_a_launch_in_a_host_loop_is_several_launches(context: Any) -> None:
    """The last event would cover one launch of eight."""
    kernel = make(
        "{[t, i]: 0 <= t < 8 and 0 <= i < 64}",
        """
        for t
            ... gbarrier {id=before}
            a[i] = a[i] + t {id=add, dep=before}
            ... gbarrier {id=wait, dep=add}
        end
        """,
        [lp.GlobalArg("a", np.float32, shape=(64,))],
        name="repeated",
        seq_dependencies=True,
    )
    kernel = lp.tag_inames(kernel, {"i": "l.0"})
    timed = time_kernel(kernel, {"a": np.zeros(64, np.float32)}, trials=2, context=context)
    assert timed.clock == "host"
