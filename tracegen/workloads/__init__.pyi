from .load import UnknownSetting as UnknownSetting
from .load import load_kernel as load_kernel
from .made_up import arguments as arguments
from .workload import Workload as Workload
