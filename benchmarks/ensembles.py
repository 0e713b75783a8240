"""Ensembles of static models on STS12, STS13 and STSBenchmark's validation split.

    python benchmarks/ensembles.py --data DIR MODEL MODEL [MODEL ...]

scores each model, the pairs of the first with each other one, and all together, at equal weights.
A MODEL is named as for `st-static evaluate`; DIR is described in `sts.py`.
"""

import argparse
from pathlib import Path

from sts import sts_scores

from st_static.evaluate.models import load_model
from st_static.model.ensemble import Ensemble


def main() -> None:
    """Score and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+")
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    models = {spec: load_model(spec) for spec in options.models}
    first, *others = options.models
    groups = [[spec] for spec in models] + [[first, other] for other in others]
    if len(others) > 1:
        groups.append(options.models)
    for group in groups:
        ensemble = Ensemble([models[spec] for spec in group])
        scores = sts_scores(ensemble, options.data)
        numbers = "  ".join(f"{name} {score:.2f}" for name, score in scores.items())
        print(f"{' + '.join(group)}: {numbers}")


if __name__ == "__main__":
    main()
