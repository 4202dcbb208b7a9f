from .host import prepare as prepare
from .marks import strip as strip
from .subscripts import readable as readable
