"""Makes the models of scikit-learn and XGBoost in this directory, with the answers of those libraries.

    python3 make.py        # python3-sklearn 1.2.1, python3-xgboost 1.7.4 (Debian 12)

Eight sensors of a machine, each read on its own grid: reading = low + step * k, in decimals, with k a whole
number of at most 16 bits.
rows.csv.gz has k for 1,000 rows that no model was fitted on; NAME.answers.csv.gz has what the library says of each.
"""

import gzip
import pathlib
import sys
from decimal import Decimal

import numpy as np
import xgboost
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

here = pathlib.Path(__file__).parent
sys.path.insert(0, str(here / "../../../interop/python"))
from export_trees import export  # noqa: E402

SENSORS = [  # name, lowest reading, step, number of steps
    ("temperature", -40.0, 0.0625, 2600), ("vibration", 0.0, 0.001, 60000), ("pressure", 300.0, 0.02, 40000),
    ("current", -20.0, 0.001, 40000), ("humidity", 0.0, 0.1, 1000), ("speed", 0.0, 1.0, 6000),
    ("acoustic", 30.0, 0.05, 2000), ("voltage", 180.0, 0.01, 8000),
]
NAMES = [s[0] for s in SENSORS]


def write(name, lines):
    with open(here / name, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(("\n".join(lines) + "\n").encode())


def pack(path):
    write(path.name + ".gz", path.read_text().rstrip("\n").split("\n"))
    path.unlink()


def data(rng, rows):
    """Return readings on their grids, the whole numbers behind them, a class out of three, and a remaining life."""
    load = rng.uniform(0, 1, rows)
    wear = rng.beta(2, 3, rows)
    heat = 20 + 60 * load + 30 * wear * load + rng.normal(0, 4, rows)
    raw = np.stack([
        heat, 2 + 30 * wear ** 2 + 8 * load + rng.gamma(2, 0.8, rows), 500 + 300 * load + rng.normal(0, 25, rows),
        4 * load + 9 * wear * load + rng.normal(0, 0.6, rows), rng.uniform(10, 95, rows),
        600 + 4200 * load + rng.normal(0, 120, rows), 45 + 25 * wear + 12 * load + rng.normal(0, 3, rows),
        230 - 9 * load + rng.normal(0, 2, rows)], axis=1)
    low, step, top = (np.array([s[i] for s in SENSORS]) for i in (1, 2, 3))
    k = np.clip(np.round((raw - low) / step), 0, top)
    strain = wear + 0.35 * load + 0.3 * (heat > 95) + rng.normal(0, 0.09, rows)
    state = (strain > 0.62).astype(int) + (strain > 0.95)
    life = 4000 * np.clip(1.3 - strain, 0.02, None) ** 1.5 + rng.normal(0, 60, rows)
    readings = np.array([[float(Decimal(str(a)) + Decimal(str(b)) * int(n)) for a, b, n in zip(low, step, row)] for row in k])
    return readings, k.astype(int), state, life


def main():
    rng = np.random.default_rng(17)
    x, _, state, life = data(rng, 6000)
    held, k, _, _ = data(rng, 1000)
    write("rows.csv.gz", [",".join(NAMES)] + [",".join(map(str, row)) for row in k])

    def sklearn_model(name, model, target, scores):
        keep(name, model.fit(x, target), scores)

    def keep(name, model, scores):
        export(model, NAMES, here / (name + ".json"))
        pack(here / (name + ".json"))
        answers(name, scores(model), model.predict(held))

    def answers(name, scores, predicted):
        scores = np.asarray(scores).reshape(len(held), -1)
        digits = 9 if scores.dtype == np.float32 else 17
        write(name + ".answers.csv.gz", [
            ",".join([str(p)] + [f"{s:.{digits}g}" for s in row]) for p, row in zip(predicted, scores)])

    wide = data(np.random.default_rng(18), 8400)  # enough for a tree of 1,000 splits
    tree = DecisionTreeClassifier(random_state=1).fit(wide[0], wide[2])
    keep("sklearn-tree", tree, lambda m: m.predict_proba(held))
    sklearn_model("sklearn-life-tree", DecisionTreeRegressor(max_depth=7, random_state=1), life, lambda m: m.predict(held))
    sklearn_model("sklearn-forest", RandomForestClassifier(12, max_depth=6, random_state=2), state,
                  lambda m: m.predict_proba(held))
    sklearn_model("sklearn-life", RandomForestRegressor(10, max_depth=6, random_state=3), life, lambda m: m.predict(held))
    sklearn_model("sklearn-boosted", GradientBoostingClassifier(n_estimators=15, max_depth=3, random_state=4), state,
                  lambda m: m.decision_function(held))
    sklearn_model("sklearn-boosted-two", GradientBoostingClassifier(n_estimators=20, max_depth=3, random_state=5),
                  state > 1, lambda m: m.decision_function(held))

    def xgboost_model(name, rounds, target, **settings):
        train = xgboost.DMatrix(x, label=target, feature_names=NAMES)
        booster = xgboost.train({"max_depth": 4, "eta": 0.3, "seed": 6} | settings, train, rounds)
        booster.save_model(here / (name + ".json"))
        pack(here / (name + ".json"))
        rows = xgboost.DMatrix(held, feature_names=NAMES)
        said = booster.predict(rows)
        if said.ndim == 2:
            said = said.argmax(axis=1)
        answers(name, booster.predict(rows, output_margin=True), [f"{p:.9g}" for p in said])

    xgboost_model("xgboost-alarm", 20, state > 1, objective="binary:logistic")
    xgboost_model("xgboost-state", 8, state, objective="multi:softprob", num_class=3)
    xgboost_model("xgboost-life", 20, life, objective="reg:squarederror", base_score=1500)
    xgboost_model("xgboost-counts", 10, np.clip(life / 500, 0, None).round(), objective="count:poisson")


main()
