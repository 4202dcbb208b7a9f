from .counter import BlockCounter as BlockCounter
from .model import EVERYONE as EVERYONE
from .model import Block as Block
from .model import BlockAccess as BlockAccess
from .model import Control as Control
