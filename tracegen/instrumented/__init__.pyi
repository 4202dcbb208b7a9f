from .host import known_arguments as known_arguments
from .host import prepare as prepare
from .marks import strip as strip
from .subscripts import readable as readable
