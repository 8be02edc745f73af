"""Shell completion, asked the way bash asks, and what is suggested for misspelt names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli.probe import imported

Run = Callable[..., Any]
SLOW = ("numpy", "pandas", "scipy", "pulp", "highspy", "onnx", "numba", "torch", "vl_convert")


@pytest.fixture
def complete(run: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """The words that bash is offered for the last word of a line."""

    def call(line: str) -> list[str]:
        monkeypatch.setenv("_RRAMALLOC_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        outcome = run()
        assert (outcome.code, outcome.err) == (0, "")
        return list(outcome.out.split())

    return call


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("rramalloc optimize vgg1", ["vgg11", "vgg16", "vgg19"]),
        ("rramalloc fold squ", ["squeezenet"]),
        ("rramalloc latency plan squ", ["squeezenet"]),
        ("rramalloc inspect model.on", []),
        ("rramalloc inspect vgg16 --hardware pi", ["pimcomp", "pipelayer"]),
        ("rramalloc place vgg16 --hardware pu", ["puma"]),
        ("rramalloc compare vgg16 --methods gain,an", ["gain,annealing"]),
        ("rramalloc compare vgg16 --methods milp,b", ["milp,balance", "milp,bottleneck"]),
        ("rramalloc schema sweep-", ["sweep-spec", "sweep-status"]),
        ("rramalloc export vgg16 --to pim", ["pimcomp", "pimsyn"]),
        ("rramalloc optimize vgg16 --mapping ker", ["kernel_split"]),
        ("rramalloc latency measure vgg16 --device on", ["onnxruntime"]),
        ("rramalloc op", ["optimize"]),
        ("rramalloc optimize vgg16 --arr", ["--arrays"]),
    ],
)
def test_bash_is_offered(line: str, words: list[str], complete: Callable[[str], list[str]]) -> None:
    assert complete(line) == words


@pytest.mark.parametrize("line", ["inspect vgg16 --hardware i", "schema all"])
def test_completion_imports_nothing_slow(line: str) -> None:
    words = f"rramalloc {line}"
    asked = {"_RRAMALLOC_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    offered, found = imported(SLOW, env=asked)
    assert offered
    assert found == "[]\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_shown_and_installed(shell: str, start: Any, tmp_path: Path) -> None:
    """As in a shell that is not recognised, where its name is given."""
    settings = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1", "HOME": str(tmp_path)}
    process = start("--show-completion", shell, env=settings)
    script, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    assert "_RRAMALLOC_COMPLETE" in script
    process = start("--install-completion", shell, env=settings)
    told, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    assert f"{shell} completion installed in {tmp_path}" in told
    assert any(path.read_text().strip() == script.strip() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ("inspect vgg61", 1, "did you mean vgg"),
        (
            "inspect Vgg16.onnx",
            1,
            "Vgg16.onnx: no such file or folder; did you mean the shipped network vgg16",
        ),
        ("inspect vgg16 --hardware hw/isac.toml", 1, "did you mean the preset isaac?"),
        ("compare vgg16 --arrays 1024 --methods auto,unifrom", 1, "did you mean uniform"),
        ("schema alocation", 1, "did you mean allocation"),
        ("export vgg16 --allocation a.json --to pimcmp", 2, "; did you mean pimcomp"),
        ("inspect vgg16 --format jsn", 2, "; did you mean json?"),
        ("optimise vgg16", 2, "'optimize'"),
        ("latency mesure vgg16", 2, "'measure'"),
        ("optimize vgg16 --arays 1024", 2, "--arrays"),
    ],
)
def test_the_nearest_is_suggested(arguments: str, code: int, told: str, run: Run) -> None:
    outcome = run(*arguments.split())
    assert outcome.code == code
    assert told in outcome.err
    assert outcome.out == ""
