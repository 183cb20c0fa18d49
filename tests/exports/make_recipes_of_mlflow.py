"""Write a classifier of scikit-learn, by skl2onnx and MLflow, and what MLflow answers, into recipes/.

    python tests/exports/make_recipes_of_mlflow.py

It runs after make_recipes.py, in the same environment.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
from skl2onnx import to_onnx
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

HERE = Path(__file__).parent / "recipes"
NAME = "mlflow_zipmap"


def of_mlflow() -> dict[str, Any]:
    """Save a classifier whose answer is a map of scores; return rows, and what MLflow answers for them."""
    flowers = load_iris()
    rows = flowers.data.astype(np.float32)
    trained = LogisticRegression(max_iter=1000).fit(rows, flowers.target_names[flowers.target])
    place = HERE / NAME
    shutil.rmtree(place, ignore_errors=True)
    signature = mlflow.models.infer_signature(rows[:1])
    requirements = ["onnx", "onnxruntime"]
    mlflow.onnx.save_model(to_onnx(trained, rows[:1]), place, signature=signature, pip_requirements=requirements)
    asked = rows[::30]
    answer = mlflow.pyfunc.load_model(str(place)).predict(asked)
    maps = [{name: float(score) for name, score in row.items()} for row in answer["output_probability"]]
    return {"rows": asked.tolist(), "labels": list(answer["output_label"]), "maps": maps}


if __name__ == "__main__":
    (HERE / f"{NAME}.json").write_text(json.dumps({"mlflow": mlflow.__version__, **of_mlflow()}) + "\n")
