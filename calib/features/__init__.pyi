from .gather import gather_feature_values as gather_feature_values
from .scaling import scale_features_by_output as scale_features_by_output
from .table import FeatureTable as FeatureTable
from .values import EvaluationContext as EvaluationContext
from .values import evaluate_all as evaluate_all
