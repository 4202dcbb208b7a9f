"""The functions in which clang 21 and later put the bodies of kernels, as it writes them."""

from __future__ import annotations

from tracegen.compiled.nvidia.nvidia_ptx import inlined_bodies

BEFORE = """\
define dso_local ptx_kernel void @s(ptr addrspace(1) noundef align 4 %0) #0 !dbg !8 {
  call void @__clang_ocl_kern_imp_s(ptr addrspace(1) noundef align 4 %0) #3
  ret void
}
define dso_local void @__clang_ocl_kern_imp_s(ptr addrspace(1) noundef align 4 %0) #1 !dbg !9 {
  ret void
}
define internal double @__internal_accurate_pow(double %0) #2 {
  ret double %0
}
attributes #0 = { convergent noinline norecurse nounwind "target-cpu"="sm_80" }
attributes #1 = { convergent noinline nounwind "target-cpu"="sm_80" }
attributes #2 = { noinline nounwind }
"""


def test_bodies_are_always_inlined_and_nothing_else_changes() -> None:
    after = inlined_bodies(BEFORE).splitlines()
    changed = {
        4: "define internal void @__clang_ocl_kern_imp_s(ptr addrspace(1) noundef align 4 %0) #1 !dbg !9 {",
        11: 'attributes #1 = { convergent alwaysinline nounwind "target-cpu"="sm_80" }',
    }
    for number, line in enumerate(BEFORE.splitlines()):
        assert after[number] == changed.get(number, line)


def test_a_text_without_bodies_is_not_changed() -> None:
    text = BEFORE.replace("__clang_ocl_kern_imp_", "other_")
    assert inlined_bodies(text) == text
