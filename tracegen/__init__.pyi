from .api import trace as trace
from .api import trace_launches as trace_launches
from .api import trace_snapshots as trace_snapshots
from .blocks.counter import count_blocks as count_blocks
from .workloads.cuda import CudaWorkload as CudaWorkload
from .workloads.load import load_kernel as load_kernel
from .workloads.opencl import OpenCLWorkload as OpenCLWorkload
from .workloads.workload import Workload as Workload
