from .expressions import Node as Node
from .expressions import Unreadable as Unreadable
from .expressions import integer as integer
from .expressions import parse as parse
from .statements import assignment as assignment
from .statements import loop_header as loop_header
from .statements import read_statements as read_statements
