"""Makes clang 21 and later compile a kernel as one function.

These versions put the body of an OpenCL kernel into a function beside it, and forbid NVIDIA's target to
inline that function. The kernel would then pay for a call that the vendor's compilers do not make.
"""

from __future__ import annotations

import re

_BODY = re.compile(
    r"^define (?:\w+ )*?(?=\w+ @__clang_ocl_kern_imp_)(?P<rest>[^\n]*?\) (?:\w+ )*#(?P<group>\d+)[^\n]*)$",
    re.MULTILINE,
)


def inlined_bodies(ir: str) -> str:
    """LLVM's text with the bodies of kernels as functions that are always inlined."""
    groups = {match["group"] for match in _BODY.finditer(ir)}
    ir = _BODY.sub(lambda match: f"define internal {match['rest']}", ir)
    for group in groups:
        ir = re.sub(
            rf"^(attributes #{group} = \{{.*?)\bnoinline\b",
            r"\1alwaysinline",
            ir,
            flags=re.MULTILINE,
        )
    return ir
