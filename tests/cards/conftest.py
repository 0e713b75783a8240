"""A small model that is really built, with its stages."""

import shutil

import pytest
from card_results import as_if_idle, write_results
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.model_card import SentenceTransformerModelCardData
from sentence_transformers.sentence_transformer.modules import Normalize

from st_static import SparseTrainer, StaticWordEmbedding
from st_static.cli import main
from st_static.model.card_file import training_of
from st_static.model.export import export_model

TEXTS = ["baba bade figo.", "Baba!", "kuku bade", "how do i read rows from a csv file"] * 20


@pytest.fixture(scope="session")
def write(built):
    """Runs `st-static card` on a model, where its teacher is found by the recorded name."""

    def run(model, *more, teachers=built / "teacher"):
        results = model.parent / "results"
        arguments = [model, "--results", *sorted((results / "local__tiny").iterdir())]
        arguments += ["--peers", *(results / "local__peer").iterdir(), *more]
        from st_static.evaluate import speed

        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(teachers)
            patch.setattr(speed, "speed_texts", lambda: TEXTS)
            if speed.sentences_per_second.__module__ == speed.__name__:  # not a test's
                patch.setattr(speed, "sentences_per_second", as_if_idle)
            cards = model.parent / "model_cards"
            return main(["card", *map(str, arguments), "--cards", str(cards)])

    return run


@pytest.fixture(scope="session")
def written(write, built, tmp_path_factory):
    """A model with its card; not to be changed."""
    home = tmp_path_factory.mktemp("home")
    shutil.copytree(built / "model", home / "tiny")
    write_results(home / "tiny")
    assert write(home / "tiny", "--work_dir", built / "work") == 0
    return home / "tiny"


@pytest.fixture
def model(written, tmp_path):
    """A copy of it, with its results and the folder of cards."""
    return shutil.copytree(written.parent, tmp_path / "home") / "tiny"


@pytest.fixture(scope="session")
def trained(built, tmp_path_factory):
    """A small model that was trained further, saved by both ways; not to be changed."""
    home = tmp_path_factory.mktemp("trained")
    words = StaticWordEmbedding.load(built / "model")
    about = SentenceTransformerModelCardData(language="en", license="mit", local_files_only=True)
    about.base_model = "org/base"
    model = SentenceTransformer(modules=[words, Normalize()], model_card_data=about, device="cpu")
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(home / "checkpoints"),
        max_steps=2,
        max_grad_norm=0,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    data = Dataset.from_dict({"anchor": ["baba", "figo"], "positive": ["bade", "kuku"]})
    loss = MultipleNegativesRankingLoss(model)
    SparseTrainer(model, arguments, train_dataset=data, loss=loss).train()
    model.save(str(home / "saved"))
    table = words.embedding.weight.detach().numpy()
    record = {"fine_tuning": training_of(vars(model.model_card_data))}
    export_model(home / "exported", table, words.tokenizer, record)
    return home


@pytest.fixture(params=["saved", "exported"])
def fine_tuned(request, trained, tmp_path):
    """A copy of a model that was trained further."""
    return shutil.copytree(trained / request.param, tmp_path / "tuned")
