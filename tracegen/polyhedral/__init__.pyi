from .c_expression import Node as Node
from .c_expression import Unreadable as Unreadable
from .c_expression import parse as parse
