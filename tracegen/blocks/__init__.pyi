from .count import TooLong as TooLong
from .count import count_blocks as count_blocks
from .model import Block as Block
from .model import BlockCounts as BlockCounts
from .model import LaunchCounts as LaunchCounts
