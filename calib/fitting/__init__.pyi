from .breakdown import break_down as break_down
from .breakdown import draw as draw
from .expression import evaluate as evaluate
from .fit import Fit as Fit
from .fit import fit_model as fit_model
from .fit import geometric_mean as geometric_mean
from .model_file import load_model_file as load_model_file
from .performance_model import Model as Model
