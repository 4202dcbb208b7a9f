from .counters.measurement import against as against
from .numbers import ORDER_SENSITIVE_SIGMA as ORDER_SENSITIVE_SIGMA
from .plots import DRAM_COLOUR as DRAM_COLOUR
from .plots import LINE_COLOUR as LINE_COLOUR
from .plots import PART_COLOURS as PART_COLOURS
from .summary import summarise as summarise
