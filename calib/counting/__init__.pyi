from .feature_counts import KernelCounts as KernelCounts
from .feature_counts import kernel_counts as kernel_counts
from .inventory import AccessRecord as AccessRecord
from .kernel_arguments import sizes_of as sizes_of
from .options import CountOptions as CountOptions
from .scheduled import schedule as schedule
from .strides import axis_strides as axis_strides
