from .context import EvaluationContext as EvaluationContext
from .gather import evaluate as evaluate
from .gather import gather_feature_values as gather_feature_values
from .table import FeatureTable as FeatureTable
from .table import scale_features_by_output as scale_features_by_output
