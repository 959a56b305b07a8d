"""Writes a fitted scikit-learn model as JSON that hencedge reads (format hencedge-trees/1, docs/models.md).

    from export_trees import export
    export(model, ["temperature", "pressure"], "trees.json")

Trees, random forests, extra trees and gradient boosting are supported, classifiers and regressors with one target.
XGBoost and LightGBM need no exporter: save_model("trees.json") and save_model("trees.txt") write what hencedge reads.
"""

import json

import sklearn
from sklearn.tree import BaseDecisionTree


def export(model, features, path):
    """Write model to path; features names the columns that it was fitted on, in their order."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump(describe(model, features), file, separators=(",", ":"))
        file.write("\n")


def describe(model, features):
    """Return the model as a dictionary of format hencedge-trees/1."""
    if len(features) != model.n_features_in_:
        raise ValueError(f"{len(features)} names for {model.n_features_in_} features: name each column once")
    if getattr(model, "n_outputs_", 1) != 1:
        raise ValueError("several targets: fit one model for each")
    form = {
        "format": "hencedge-trees/1",
        "source": "scikit-learn " + sklearn.__version__,
        "estimator": type(model).__name__,
        "features": list(features),
    }
    if hasattr(model, "classes_"):
        form["classes"] = [str(label) for label in model.classes_]
    if isinstance(model, BaseDecisionTree):
        return form | {"combine": "sum", "link": "identity", "trees": [tree(model.tree_, average(model))]}
    if type(model).__name__ in ("RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor"):
        return form | {"combine": "mean", "link": "identity", "trees": [tree(e.tree_, average(model)) for e in model.estimators_]}
    if type(model).__name__ in ("GradientBoostingClassifier", "GradientBoostingRegressor"):
        return form | boosted(model)
    raise ValueError(f"{type(model).__name__} is not supported: see the list in docs/models.md")


def boosted(model):
    """Return what is particular to gradient boosting: the first guess, and trees that add to one output each."""
    base = model._raw_predict_init([[0.0] * model.n_features_in_])[0]
    link = "identity"
    if hasattr(model, "classes_"):
        link = "logistic" if len(base) == 1 else "softmax"
        if model.loss == "exponential":
            raise ValueError("loss='exponential' is not supported: fit with loss='log_loss'")
    trees = []
    for stage in model.estimators_:
        for output, estimator in enumerate(stage):
            entry = tree(estimator.tree_, lambda value: [model.learning_rate * value[0]])
            trees.append(entry | {"output": output})
    return {"combine": "sum", "link": link, "base": [float(b) for b in base], "trees": trees}


def average(model):
    """Return the function from a node's entry in tree_.value to what the tree says there."""
    if hasattr(model, "classes_"):
        return lambda value: list(value / value.sum())
    return list


def tree(t, leaf):
    """Return one tree: parallel lists over its nodes, with -1 as the children of a leaf."""
    values = [[float(v) for v in leaf(t.value[i][0])] if t.children_left[i] < 0 else [] for i in range(t.node_count)]
    return {
        "feature": [int(f) if f >= 0 else -1 for f in t.feature],
        "threshold": [float(x) if f >= 0 else 0.0 for x, f in zip(t.threshold, t.feature)],
        "left": [int(i) for i in t.children_left],
        "right": [int(i) for i in t.children_right],
        "value": values,
    }
