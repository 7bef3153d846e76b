"""Scikit-learn pipeline on noisy digits: a grid search chooses the objective by the accuracy of a classifier.

The encoder never sees a label. PCA is shown for comparison: on data this small it is hard to beat.

    python examples/sklearn_pipeline.py [--epochs 40] [--samples 1797]
"""

import argparse

import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import dcs


def pipeline(features: object) -> Pipeline:
    """Make a pipeline: features, standardisation and logistic regression."""
    return Pipeline(
        [("features", features), ("scale", StandardScaler()), ("classify", LogisticRegression(max_iter=1000))]
    )


def main() -> None:
    """Compare PCA with encoders whose objective is chosen by a grid search."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--samples", type=int, default=1797)
    wanted = parser.parse_args()

    digits = load_digits()
    clean = torch.tensor(digits.images[: wanted.samples] / 16, dtype=torch.float32)
    noisy = dcs.noise.add(clean, "gaussian", 0.3, seed=0).numpy()  # (n, 8, 8): the encoder takes images
    train, test, y_train, y_test = train_test_split(noisy, digits.target[: wanted.samples], random_state=0)

    pca = pipeline(PCA(10, random_state=0)).fit(train.reshape(len(train), -1), y_train)
    print(f"PCA: {100 * pca.score(test.reshape(len(test), -1), y_test):.1f} % accuracy on test digits")

    encoder = dcs.DenoisingEncoder(
        max_epochs=wanted.epochs, batch_size=64, network_options={"hidden": (256, 256)}, random_state=0
    )
    grid = {"features__objective": ["mse", "dcs"]}
    search = GridSearchCV(pipeline(encoder), grid, cv=2).fit(train, y_train)
    for setting, score in zip(
        search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
    ):
        print(f"{setting['features__objective']}: {100 * score:.1f} % in cross-validation")
    chosen = search.best_params_["features__objective"]
    print(f"chosen: {chosen}, {100 * search.score(test, y_test):.1f} % accuracy on test digits")


if __name__ == "__main__":
    main()
