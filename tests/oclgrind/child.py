"""Runs pickled workloads through plain Loopy on the only OpenCL platform that there is: Oclgrind.

Reads one JSON list a line, [request, record, outputs, build options], and answers each with a line.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import sys
from pathlib import Path

import loopy as lp
import numpy as np
import pyopencl as cl


def main() -> None:
    (platform,) = cl.get_platforms()
    assert platform.name == "Oclgrind", platform.name
    context = cl.Context(platform.get_devices())
    queue = cl.CommandQueue(context)
    for line in sys.stdin:
        request, record, outputs, options = json.loads(line)
        os.environ["MEMSIM_OCLGRIND_OUT"] = record
        os.environ["OCLGRIND_BUILD_OPTIONS"] = options
        with contextlib.redirect_stdout(sys.stderr):  # stdout is for answers
            try:
                kernel, arguments = pickle.loads(Path(request).read_bytes())
                kernel = lp.set_options(kernel, return_dict=True)
                _, results = kernel.executor(context)(queue, **arguments)
                queue.finish()
                np.savez(outputs, **results)
                answer = "done"
            except Exception as error:
                answer = " ".join(repr(error).split())
        print(answer, flush=True)


if __name__ == "__main__":
    main()
