"""Define JMTEB's first version, as close to its authors' runs as mteb allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask

JMTEB_V1 = "JMTEB(v1)"
# The data sets of the authors' table, which has no reranking, as mteb names them.
_TASKS = {
    "Classification": "AmazonCounterfactualClassification AmazonReviewsClassification "
    "MassiveIntentClassification MassiveScenarioClassification",
    "Clustering": "LivedoorNewsClustering.v2 MewsC16JaClustering",
    "PairClassification": "PawsXPairClassification",
    "Retrieval": "JaqketRetrieval MrTidyRetrieval JaGovFaqsRetrieval NLPJournalTitleAbsRetrieval "
    "NLPJournalAbsIntroRetrieval NLPJournalTitleIntroRetrieval",
    "STS": "JSTS JSICK",
}
# mteb scores these on the validation set, too, and the mean would be of both.
_TESTED = ("Classification", "PairClassification")
# The authors' metrics, by task type, where mteb's main score is another one.
MAIN_METRICS = {"Classification": "f1", "PairClassification": "max_f1"}
# Further ones that they report and mteb has: heading -> (task type, mteb's name).
FURTHER_METRICS = {
    "Class. accuracy": ("Classification", "accuracy"),
    "PairClass. accuracy": ("PairClassification", "max_accuracy"),
    **{f"Retr. Acc@{k}": ("Retrieval", f"hit_rate_at_{k}") for k in (1, 3, 5, 10)},
    "Retr. MRR@10": ("Retrieval", "mrr_at_10"),
}


def jmteb_tasks() -> list[AbsTask]:
    """Get the tasks, with their Japanese subsets and the splits that the authors report."""
    import mteb

    return [
        mteb.get_task(name, languages=["jpn"], eval_splits=["test"] if kind in _TESTED else None)
        for kind, names in _TASKS.items()
        for name in names.split()
    ]
