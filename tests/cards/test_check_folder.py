"""What may be published: each thing that is wrong with a folder is found, all of them at once."""

import os
import re
import sys

import numpy as np
import pytest
from editing import is_fit, problems_of, replace_in, set_in
from model2vec import StaticModel
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer
from small_model import CARD, write_model

from st_static import export_onnx
from st_static.cards import check_folder as folder_check
from st_static.cards.check_folder import check_folder, is_written_here
from st_static.model.model_folder import ModelFolder

HF_TOKEN = "hf_" + "aB3" * 11 + "x"
GITHUB_TOKEN = "ghp_" + "aB3" * 12
AWS_KEY = "AKIA" + "ABCD" * 4
OWN_MODULE = "my_module.MyModule"


@pytest.fixture
def folder(tmp_path):
    return write_model(tmp_path / "model")


def change_table(folder, change):
    file = folder / "model.safetensors"
    save_file({"embeddings": change(load_file(file)["embeddings"])}, file)


def with_nan(table):
    table[2, 1] = np.nan
    return table


# -- fit -------------------------------------------------------------------------------


def test_a_whole_folder_is_fit_and_its_files_are_listed(folder):
    files = check_folder(ModelFolder.local(folder))
    paths = [path for path in folder.rglob("*") if path.is_file()]
    assert {file.path: file.size for file in files} == {
        path.relative_to(folder).as_posix(): path.stat().st_size for path in paths
    }
    assert [file.path for file in files] == sorted(file.path for file in files)
    assert ".eval_results/sts12.yaml" in {file.path for file in files}


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_either_number_format_is_fit_also_where_sentence_transformers_saved_it(tmp_path, dtype):
    folder = write_model(tmp_path / "model", dtype)
    assert is_fit(folder)
    set_in(folder / "modules.json", {"0.path": ""})
    assert is_fit(folder)


def test_the_pca_and_figures_in_folders_are_part_of_a_model(folder):
    save_file({"components": np.eye(4)}, folder / "sentence_pca.safetensors")
    (folder / "figures" / "dark").mkdir()
    (folder / "figures" / "dark" / "scores.png").write_bytes(b"\x89PNG")
    (folder / "README.md").write_text(f"{CARD}\n<img src='figures/dark/scores.png'>\n")
    names = {file.path for file in check_folder(ModelFolder.local(folder))}
    assert names >= {"sentence_pca.safetensors", "figures/dark/scores.png"}


def test_no_folder_is_no_model(tmp_path):
    with pytest.raises(ValueError, match=r"There is no folder .*nothing"):
        is_fit(tmp_path / "nothing")


# -- files -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        *("notes.txt", ".DS_Store", "pytorch_model.bin", "modeling.py", "5_Dense/config.json"),
        *("figures/scores.html", "figures/.hidden.svg", ".eval_results/scores.json"),
        *("1_Normalize/deep/config.json", ".git/config", "onnx/model_fp16.onnx"),
    ],
)
def test_a_file_that_is_no_part_of_a_model_is_found(folder, name):
    (folder / name).parent.mkdir(exist_ok=True, parents=True)
    (folder / name).write_text("[]")
    assert f"{name} is not part of a model. Move it elsewhere." in problems_of(folder)
    assert not is_written_here(name)


@pytest.mark.parametrize(
    "name",
    [
        *("README.md", "modules.json", "model.safetensors", "tokenizer.json"),
        "config_sentence_transformers.json",
    ],
)
def test_a_missing_file_is_found(folder, name):
    (folder / name).unlink()
    [problem] = problems_of(folder)
    assert problem.startswith(f"There is no {name}.")


def test_a_text_too_large_for_a_model_is_found(folder):
    os.truncate(folder / "tokenizer.json", 1_000_000_001)  # sparse: it takes no room
    [problem] = problems_of(folder)
    says = "tokenizer.json has 1,000,000,001 bytes, but such a file may have up to 1,000,000,000."
    assert problem.startswith(says)


def test_a_table_too_large_for_the_hub_is_found(folder, monkeypatch):
    assert folder_check._MAX_BYTES == 50_000_000_000
    size = (folder / "model.safetensors").stat().st_size
    monkeypatch.setattr(folder_check, "_MAX_BYTES", size - 1)
    assert any(p.startswith(f"model.safetensors has {size} bytes") for p in problems_of(folder))


def test_too_many_files_for_the_hub_are_found(folder):
    for number in range(10_000):
        (folder / "figures" / f"{number}.svg").touch()
    assert "figures holds 10,001 files, but the Hub takes up to 10,000." in problems_of(folder)


# -- modules ---------------------------------------------------------------------------


def test_a_module_that_is_not_built_in_has_to_be_allowed(folder):
    set_in(folder / "modules.json", {"1.type": OWN_MODULE})
    [problem] = problems_of(folder)
    assert OWN_MODULE in problem
    assert "--allow_remote_code" in problem
    (folder / "my_module.py").write_text("class MyModule: ...\n")
    (folder / "5_Dense").mkdir()
    (folder / "5_Dense" / "config.json").write_text("{}")
    files = check_folder(ModelFolder.local(folder), allow_remote_code=True)
    assert {file.path for file in files} >= {"my_module.py", "5_Dense/config.json"}
    (folder / "weights.bin").write_bytes(b"a pickle")  # which is no code
    [problem] = problems_of(folder, allow_remote_code=True)
    assert problem == "weights.bin is not part of a model. Move it elsewhere."


def test_the_code_of_an_ensemble_is_not_to_be_moved_elsewhere(folder):
    (folder / "segment_normalize.py").write_text("class SegmentNormalize: ...\n")
    [problem] = problems_of(folder)
    assert problem.startswith("segment_normalize.py belongs to a module with code of its own")
    assert "--allow_remote_code" in problem


@pytest.mark.parametrize("text", ["{}", "[]", "no JSON", '[{"type": 3, "path": ""}]', '[{"a": 1}]'])
def test_a_broken_list_of_modules_is_found(folder, text):
    (folder / "modules.json").write_text(text)
    [problem] = problems_of(folder)
    assert re.search("modules.json (is not as expected|is not JSON|names no module)", problem)


# -- tables ----------------------------------------------------------------------------


def test_broken_tensors_are_found(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-4])
    [problem] = problems_of(folder)
    assert "model.safetensors is broken: " in problem


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_values_that_are_not_finite_are_found(tmp_path, dtype):
    folder = write_model(tmp_path / "model", dtype)
    change_table(folder, with_nan)
    save_file({"mean": np.array([1, np.inf, -np.inf])}, folder / "sentence_pca.safetensors")
    for problem, array, file in zip(
        problems_of(folder), ("embeddings", "mean"), ("model", "sentence_pca"), strict=True
    ):
        assert f"{array} in" in problem
        assert f"{file}.safetensors holds numbers that are not finite." in problem


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda table: table[:-1].copy(), "has ids up to"),
        (lambda table: np.vstack([table, table[:1]]), "it should have a row for each"),
        (lambda table: table[:, :, None].copy(), "as rows of numbers"),
    ],
)
def test_a_table_of_another_model_is_found(folder, change, says):
    change_table(folder, change)
    [problem] = problems_of(folder)
    assert says in problem


# -- files for other clients -----------------------------------------------------------


def test_a_table_that_model2vec_does_not_find_is_found(folder):
    (folder / "config.json").unlink()
    [problem] = problems_of(folder)
    assert problem.startswith("There is no config.json, without which Model2Vec")


def test_a_model_that_sentence_transformers_saved_over_ours_is_found(folder):
    model = SentenceTransformer(str(folder), device="cpu")
    model.save_pretrained(str(folder), create_model_card=False)
    with pytest.raises(SafetensorError):
        StaticModel.from_pretrained(folder)
    [problem] = problems_of(folder)
    assert problem.startswith("config.json makes Model2Vec look for a table called embeddings")
    (folder / "config.json").unlink()
    assert is_fit(folder)
    StaticModel.from_pretrained(folder)


@pytest.mark.parametrize("normalize", ["false", "null"])
def test_files_that_differ_about_normalisation_are_found(folder, normalize):
    config = f'{{"model_type": "model2vec", "normalize": {normalize}}}'
    (folder / "config.json").write_text(config)
    [problem] = problems_of(folder)
    assert problem.startswith("config.json and modules.json differ in whether vectors are scaled")


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("config.json", "mine", "config.json is not JSON"),
        ("config.json", "[true]", "config.json is not JSON"),
        ("config.json", "{}", "config.json has the model_type None"),
        ("config.json", '{"model_type": ["bert"]}', "config.json has the model_type ['bert']"),
        ("tokenizer_config.json", "mine", "tokenizer_config.json is not JSON"),
    ],
)
def test_files_that_no_client_reads_are_found(folder, name, content, problem):
    (folder / name).write_text(content)
    [found] = problems_of(folder)
    assert found.startswith(problem)
    with pytest.raises(ValueError, match=f"{re.escape(problem)}.*Move it away"):
        export_onnx(folder)


# -- card ------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["license", "library_name", "pipeline_tag"])
def test_a_card_without_a_required_key_is_found(folder, key):
    replace_in(folder / "README.md", f"\n{key}:", f"\nno_{key}:")
    [problem] = problems_of(folder)
    assert problem.startswith("README.md: Expected")
    assert key in problem


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("license: apache-2.0", "license: 2"),
        ("pipeline_tag: ", "pipeline_tag: [a]  # "),
        ("value: 70.5", "value: true"),
        ("      type: STS", "      type: ''"),
        ("      type: mteb/sts12-sts\n", ""),
        ("type: mteb/sts12-sts", "type: 7"),
        ("name: MTEB STS12", "name: null"),
        ("type: cosine_spearman", "type: []"),
    ],
)
def test_wrong_metadata_of_a_card_is_found(folder, old, new):
    replace_in(folder / "README.md", old, new)
    problems = problems_of(folder)
    assert problems
    assert all(problem.startswith("README.md: ") for problem in problems)


def test_a_card_that_is_no_text_is_found(folder):
    (folder / "README.md").write_bytes(b"\xff\xfe")
    [problem] = problems_of(folder)
    assert problem.endswith("README.md, but there is other data.")


def test_figures_and_the_card_must_fit(folder):
    links = "[The method](https://arxiv.org/abs/2506.04624), [above](#ours-256)"
    gone = "(figures/my%20model/gone.png)"
    replace_in(folder / "README.md", "(figures/scores.svg)", f"{gone}\n{links}")
    assert problems_of(folder) == [
        "README.md links to figures/my model/gone.png, which is not there. Write it again: "
        "st-static card.",
        "figures/scores.svg is not in README.md. Remove it, or write the card again.",
    ]


def test_the_card_must_load_the_repository_that_it_is_of(folder):
    program = '\n    model = SentenceTransformer("models/ours-256")\n'
    (folder / "README.md").write_text(CARD + program)
    assert is_fit(folder)
    [problem] = problems_of(folder, "org/ours-256")
    assert re.search(r"models/ours-256, which.*--hub_id org/ours-256", problem)
    loads = "\n    model = SentenceTransformer('org/ours-256', truncate_dim=128)\n"
    (folder / "README.md").write_text(CARD + program + loads)
    assert is_fit(folder, "org/ours-256")
    says = "names the model ours-256 in its model-index"
    assert any(says in problem for problem in problems_of(folder, "org/other"))


def test_a_card_may_name_several_languages_and_no_results(folder):
    card = CARD.replace("language: en", "language: [en, de]")
    (folder / "README.md").write_text(re.sub(r"(?s)model-index.*\n---", "---", card))
    assert is_fit(folder)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("    id: mteb/sts12-sts\n", "", "is not a list of results"),
        ("- dataset:", "dataset:", "is not a list of results"),
        ("    task_id: default\n", "", "missing required field `task_id` at `[0].dataset`."),
        ("value: 70.5", "value: '70.5'", "expected `float`, got `str` at `[0].value`."),
        ("value: 70.5", "value: true", "expected `float`, got `bool` at `[0].value`."),
        ("value: 70.5", "value: .nan", "the value of mteb/sts12-sts is not a finite number."),
    ],
)
def test_wrong_results_are_found(folder, old, new, says):
    replace_in(folder / ".eval_results" / "sts12.yaml", old, new)
    [problem] = problems_of(folder)
    assert problem.startswith(".eval_results/sts12.yaml ")
    assert says in problem


# -- secrets ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("secret", "kind"),
    [
        (HF_TOKEN, "a token of the Hugging Face Hub"),
        (GITHUB_TOKEN, "a token of GitHub"),
        ("github_pat_" + "aB3_" * 12, "a token of GitHub"),
        (AWS_KEY, "a key of AWS"),
        ("AIza" + "aB3-_" * 7, "a key of Google"),
        ("sk-ant-" + "aB3-" * 10, "a key of OpenAI or Anthropic"),
        ("xoxb-" + "123-" * 5, "a token of Slack"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "a private key"),
        ("-----BEGIN PRIVATE KEY-----", "a private key"),
    ],
)
@pytest.mark.parametrize("name", ["README.md", "st_static.json", "figures/scores.svg"])
def test_a_secret_is_found_and_not_repeated(folder, secret, kind, name):
    text = (folder / name).read_text() + f"\nnote: {secret}\n"
    if name.endswith(".json"):
        text = f'{{\n  "note": "{secret}"\n}}'
    (folder / name).write_text(text)
    line = 1 + text[: text.index(secret)].count("\n")
    [problem] = problems_of(folder)
    assert problem == f"{name}: line {line} looks like {kind}. Remove it."


def test_words_that_begin_like_a_secret_are_none(folder):
    words = "hf_hub_download ghp_ AKIA sk-learn-contrib-of-many-words xox BEGIN PRIVATE KEY"
    (folder / "README.md").write_text(CARD + words)
    assert is_fit(folder)


# -- together --------------------------------------------------------------------------


def test_all_problems_are_told_at_once(folder):
    (folder / "notes.txt").write_text(AWS_KEY)
    (folder / "tokenizer.json").unlink()
    change_table(folder, with_nan)
    (folder / "README.md").write_text(CARD.replace("license:", "licence:"))
    problems = problems_of(folder)
    assert len(problems) == 5
    for name in ("notes.txt is no", "tokenizer.json", "finite", "license", "notes.txt: line 1"):
        assert any(name in problem for problem in problems)


def test_the_folder_is_left_as_it_is_and_the_model_not_kept_in_memory(folder):
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    here, opened = os.getcwd(), ModelFolder.local(folder)
    check_folder(opened)
    assert "model" not in vars(opened)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert os.getcwd() == here


def test_a_model_of_text_that_may_not_be_passed_on_is_refused(folder):
    corpus = {"files": None, "license": "mit", "redistributable": False}
    recipe = {"corpus": corpus, "teacher": {"model": "org/teacher"}}
    set_in(folder / "st_static.json", {"recipe": recipe})
    [problem] = problems_of(folder)
    assert "may not be redistributed" in problem


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("model.safetensors", True),
        ("onnx/model.onnx", True),
        ("segment_normalize.py", True),
        ("1_SegmentNormalize/config.json", True),
        ("1_SegmentNormalize/model.py", False),
        ("query_logs/a.txt", False),
    ],
)
def test_what_st_static_writes_is_known(path, written):
    assert is_written_here(path) == written


# -- ONNX ------------------------------------------------------------------------------


def test_onnx_files_are_part_of_the_model_and_have_its_table(folder):
    export_onnx(folder, quantize="int8")
    paths = {file.path for file in check_folder(ModelFolder.local(folder))}
    assert paths >= {"onnx/model.onnx", "onnx/model_quantized.onnx"}
    change_table(folder, lambda table: 2 * table)
    [first, second] = problems_of(folder)
    assert first.startswith("onnx/model.onnx is not of this model")
    assert second.startswith("onnx/model_quantized.onnx is not of this model")
    assert second.endswith(f"st-static export {folder} --onnx --quantize int8.")
    export_onnx(folder, quantize="int8")
    assert is_fit(folder)


def test_onnx_files_that_cannot_be_compared_are_not_published(folder, monkeypatch):
    export_onnx(folder)
    monkeypatch.delitem(sys.modules, "st_static.web.onnx_export")
    monkeypatch.setitem(sys.modules, "onnx", None)
    [problem] = problems_of(folder)
    assert problem == 'The check of ONNX files needs onnx: pip install "st-static[onnx]".'


def test_a_card_that_promises_an_onnx_file_is_found(folder):
    program = 'await AutoModel.from_pretrained("ORG/ours-256", { dtype: "q8" });'
    (folder / "README.md").write_text(f"{CARD}\n{program}\n")
    export_onnx(folder)
    [problem] = problems_of(folder)
    assert problem.startswith("README.md says to load q8, but there is no onnx/model_quantized")
    export_onnx(folder, quantize="int8")
    assert is_fit(folder)
