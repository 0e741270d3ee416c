"""Small estimators of scikit-learn, fitted to little data."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes, load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC


class Fitted(NamedTuple):
    """An estimator and rows that it was fitted to."""

    estimator: Any
    rows: Any


FLOWERS, KINDS = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[KINDS]
PATIENTS, PROGRESS = load_diabetes(return_X_y=True)
PASSENGERS = pd.DataFrame(
    {
        "age": [22.0, 38, np.nan, 35, 54, 2, 27, 14] * 5,
        "port": ["S", "C", "Q", "S", "S", "C", "Q", "S"] * 5,
        "fare": np.linspace(7, 80, 40),
    }
)
SURVIVED = [0, 1, 1, 1, 0, 0, 1, 1] * 5
REVIEWS = ["a good film", "a bad film", "great movie, great cast", "an awful movie", "good fun", "bad and long"] * 4
VERDICTS = ["pos", "neg", "pos", "neg", "pos", "neg"] * 4

_columns = make_column_transformer(
    (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "fare"]),
    (OneHotEncoder(handle_unknown="ignore"), ["port"]),
)

MAKERS: dict[str, Callable[[], Fitted]] = {
    "names": lambda: Fitted(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(FLOWERS, NAMES), FLOWERS
    ),
    "forest": lambda: Fitted(RandomForestClassifier(8, random_state=0).fit(FLOWERS, KINDS), FLOWERS),
    "boosting": lambda: Fitted(GradientBoostingClassifier(n_estimators=5).fit(FLOWERS, KINDS), FLOWERS),
    "histograms": lambda: Fitted(HistGradientBoostingClassifier(max_iter=5).fit(FLOWERS, KINDS), FLOWERS),
    "histograms of numbers": lambda: Fitted(
        HistGradientBoostingRegressor(max_iter=20).fit(PATIENTS, PROGRESS), PATIENTS
    ),
    "two numbers": lambda: Fitted(Ridge().fit(PATIENTS, np.c_[PROGRESS, -PROGRESS]), PATIENTS),
    "clusters": lambda: Fitted(KMeans(3, n_init=2, random_state=0).fit(FLOWERS), FLOWERS),
    "outliers": lambda: Fitted(IsolationForest(n_estimators=8, random_state=0).fit(FLOWERS), FLOWERS),
    "two classes": lambda: Fitted(make_pipeline(StandardScaler(), SVC()).fit(FLOWERS, KINDS > 0), FLOWERS),
    "scores": lambda: Fitted(make_pipeline(StandardScaler(), LinearSVC()).fit(FLOWERS, KINDS), FLOWERS),
    "reduced": lambda: Fitted(PCA(2).fit(FLOWERS), FLOWERS),
    "columns": lambda: Fitted(make_pipeline(_columns, LogisticRegression()).fit(PASSENGERS, SURVIVED), PASSENGERS),
    "texts": lambda: Fitted(make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(REVIEWS, VERDICTS), REVIEWS),
}


def logarithms() -> Fitted:
    """With a step that ONNX has no converter for, and that takes no negative numbers."""
    rows = np.abs(PATIENTS)
    return Fitted(make_pipeline(FunctionTransformer(np.log1p), Ridge()).fit(rows, PROGRESS), rows)
