from .load import load_kernel as load_kernel
from .loopy_unit import as_kernel_error as as_kernel_error
from .loopy_unit import inlined as inlined
from .made_up import arguments as arguments
from .settings import WrongSetting as WrongSetting
from .workload import Workload as Workload
