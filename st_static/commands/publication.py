"""What `st-static build --publish ORG/NAME` does after the build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from st_static.commands import card, evaluate, publish
from st_static.dependencies import needed_by, require_packages
from st_static.distill.config import BuildConfig
from st_static.hub import require_hub
from st_static.languages import recorded_languages

if TYPE_CHECKING:
    from st_static.publish.card.inputs import CardInputs

BENCHMARK = "MTEB(eng, v2)"  # of English; it has fewer tasks than v1


@dataclass(frozen=True)
class Publication:
    """Where a model is published once it is built, and on what it is scored before.

    Attributes:
        repo_id: ORG/NAME.
        tasks: Names of MTEB tasks; by default those of the benchmark of the recipe's languages.
        data: Folder of local copies of the tasks' datasets.
    """

    repo_id: str
    tasks: Sequence[str] | None = None
    data: Path | None = None

    def check(self, config: BuildConfig) -> None:
        """Check, before hours of work, what would fail after them.

        Raises:
            ValueError: An extra or the token is missing, a task or a copy of its data is not there,
                or the recipe does not say, or does not allow, what a card states.
            OSError: The Hub cannot be reached.
        """
        with needed_by("This command", "publish"):
            require_packages(*card.PACKAGES)
        _check_facts(config)
        evaluate.check(self.evaluation(config))
        from st_static.publish.hub.publish import check_request, find_token

        check_request(self.repo_id)
        find_token()
        require_hub(self.repo_id)

    def run(self, config: BuildConfig) -> int:
        """Score the model that a recipe has built, write its card and publish it.

        Returns:
            The exit status: that of the first step that fails.
        """
        return (
            evaluate.evaluate(self.evaluation(config))
            or card.write(Path(config.output), self.card_inputs(config))
            or publish.publish_folder(Path(config.output), self.repo_id)
        )

    def evaluation(self, config: BuildConfig) -> evaluate.Evaluation:
        """What is scored."""
        benchmark = None if self.tasks else _benchmark(config)
        return evaluate.Evaluation(config.output, benchmark, self.tasks, data=self.data)

    def card_inputs(self, config: BuildConfig) -> CardInputs:
        """What the card is made from."""
        from st_static.evaluate.benchmark import results_folder
        from st_static.publish.card.inputs import CardInputs

        inputs = CardInputs(
            results=[results_folder(config.output, is_local=self.data is not None)],
            published=None,
            work_dir=Path(config.work_dir),
            hub_id=self.repo_id,
        )
        return inputs if self.tasks else replace(inputs, benchmark=_benchmark(config))


def _benchmark(config: BuildConfig) -> str:
    """The benchmark of a recipe's languages."""
    from st_static.publish.card.benchmarks import ENGLISH, benchmark_of

    found = benchmark_of(recorded_languages(config.recipe()))
    return BENCHMARK if found == ENGLISH else found


def _check_facts(config: BuildConfig) -> None:
    """Check what the recipe says of its corpus, its teacher and the model's licence."""
    from st_static.publish.checks.card import check_licence, check_recipe

    for problem in check_recipe(config.recipe()):
        raise ValueError(problem)
    license_id = config.export.license or "unknown"
    if license_id == "other":
        raise ValueError(
            "export.license is other, whose terms are yours to write into the card: build, write "
            "the card and its notes, then st-static publish."
        )
    for problem in check_licence({"license": license_id}):
        raise ValueError(f"export.license: {problem}")
