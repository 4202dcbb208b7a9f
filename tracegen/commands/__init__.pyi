from .kernel import KernelSpec as KernelSpec
from .kernel import kernel_options as kernel_options
from .kernel import kernels_options as kernels_options
from .kernel import replay_grown as replay_grown
from .kernel import trace_sized as trace_sized
from .kernel import trace_snapshots as trace_snapshots
from .kernel import variants_of as variants_of
