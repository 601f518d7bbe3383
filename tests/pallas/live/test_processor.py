"""Which of a wheel's builds is loaded."""
import pytest

from tessera import _processor

NEHALEM = {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}
SANDY_BRIDGE = NEHALEM | {"avx", "xsave"}
HASWELL = SANDY_BRIDGE | {"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}
SKYLAKE_X = HASWELL | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
EVERY = ("x86-64-v2", "x86-64-v3", "x86-64-v4")


@pytest.fixture
def package(tmp_path, monkeypatch):
    monkeypatch.delenv("TESSERA_LEVEL", raising=False)

    def with_levels(*levels):
        for level in levels:
            (tmp_path / level).mkdir()
        return str(tmp_path)

    return with_levels


@pytest.mark.parametrize("processor, level", [(NEHALEM, "x86-64-v2"), (SANDY_BRIDGE, "x86-64-v2"), (HASWELL, "x86-64-v3"),
                                              (HASWELL - {"fma"}, "x86-64-v2"), (SKYLAKE_X, "x86-64-v4")])
def test_the_best_that_the_processor_runs(package, processor, level):
    assert _processor.folder(package(*EVERY), processor).endswith(f"/{level}")


def test_the_best_of_those_that_there_are(package):
    assert _processor.folder(package("x86-64-v2", "x86-64-v3"), SKYLAKE_X).endswith("/x86-64-v3")


def test_arm_has_one_level_of_its_own(package):
    assert _processor.folder(package("armv8-a"), set()).endswith("/armv8-a")


def test_none_where_all_is_for_one_processor(package):
    assert _processor.folder(package(), HASWELL) is None


def test_an_older_processor_is_told_what_to_do(package):
    with pytest.raises(ImportError, match="pip install ./python"):
        _processor.folder(package("x86-64-v3"), SANDY_BRIDGE)


def test_a_level_by_its_name(package, monkeypatch):
    there = package("x86-64-v2", "x86-64-v3")
    monkeypatch.setenv("TESSERA_LEVEL", "x86-64-v2")
    assert _processor.folder(there, HASWELL).endswith("/x86-64-v2")
    monkeypatch.setenv("TESSERA_LEVEL", "x86-64-v4")
    with pytest.raises(ImportError, match="x86-64-v3, x86-64-v2"):
        _processor.folder(there, SKYLAKE_X)
