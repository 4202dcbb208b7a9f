from .counter import CountOptions as CountOptions
from .counter import KernelCounts as KernelCounts
from .counter import kernel_counts as kernel_counts
from .inventory import AccessRecord as AccessRecord
from .scheduled import schedule as schedule
from .shapes import sizes_of as sizes_of
from .strides import axis_strides as axis_strides
