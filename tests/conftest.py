"""Settings of the whole test run: media, GPU marker, index cache, hypothesis."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from data_scripts.media_item import Entry
from seqpipe.core.native import native_directory
from seqpipe.video.engine.backend import PROCESSES
from tests.support import media
from tests.support.deep import leave_wide_sweeps
from tests.support.gpu import missing_gpu, required
from tests.support.kept import kept_folder
from tests.support.last_words import (  # noqa: F401  hooks of pytest
    pytest_configure,
    pytest_terminal_summary,
    pytest_unconfigure,
)

hypothesis.settings.register_profile("ci", max_examples=50, derandomize=True, deadline=None, print_blob=True)
hypothesis.settings.register_profile("here", deadline=None)
# with the constants of every file of ours, which are found anew only where the file has changed
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(kept_folder("hypothesis", "")))
hypothesis.settings.load_profile("ci" if os.environ.get("CI") == "true" else "here")


@pytest.fixture(scope="session", autouse=True)
def index_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An index cache that belongs to this run alone, beside compiled C sources, which are kept between runs."""
    folder = tmp_path_factory.mktemp("index_cache")
    (folder / native_directory().name).symlink_to(kept_folder("native", ""), target_is_directory=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQPIPE_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def no_children() -> Iterator[None]:
    """Engines decode in their threads, however many cores there are: tests of children ask for them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PROCESSES.name, os.environ.get(PROCESSES.name, "0"))
        yield


@pytest.fixture(scope="session")
def torch() -> Any:
    """PyTorch, where it is: an extra, which a machine that has only Python and pip does without."""
    return pytest.importorskip("torch", reason="torch is an extra")


@pytest.fixture(scope="session")
def made_media() -> dict[str, Entry]:
    """Every made item by name; the files lie in media.MADE_DIR."""
    return media.entries()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without searching for garbage, and keep what is collected out of every later search.

    There are hundreds of thousands of objects, all of which are needed to the end.
    """
    gc.disable()
    try:
        _import_share(session.config)
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def _import_share(config: pytest.Config) -> None:
    """Import another share of the test files first in each process of pytest-xdist.

    pytest rewrites the assertions of a file for whoever imports it first, which takes longer than all else of
    collecting. Processes that collect in step would each rewrite every file.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes == 1 or sys.dont_write_bytecode or config.args_source != pytest.Config.ArgsSource.TESTPATHS:
        return
    number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    files = sorted((config.rootpath / "tests").rglob("test_*.py"))
    for file in files[number::processes]:
        # collecting imports once more what fails here, and says why
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.relative_to(config.rootpath).with_suffix("").parts))


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, object, object]:
    """Make a few cases of wide sweeps the usual ones, once all cases are known."""
    result = yield
    leave_wide_sweeps(metafunc)
    return result


def pytest_sessionfinish() -> None:
    """Let Python take down what was kept out of its searches as it takes down everything else."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, object, object]:
    """Leave out what needs a GPU after pytest has left out by -m."""
    result = yield
    _leave_out_gpu(config, items)
    return result


def _leave_out_gpu(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out thousands of tests marked gpu where there is no GPU, unless nothing else was asked for."""
    if not missing_gpu() or required():
        return
    left = [item for item in items if item.get_closest_marker("gpu") is None]
    if left and len(left) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("gpu")])
        items[:] = left


def pytest_report_header() -> str | None:
    """Say that the tests marked gpu do not run."""
    missing = missing_gpu()
    return f"tests marked gpu are left out: {missing}" if missing and not required() else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test marked gpu where there is no GPU; fail it instead under SEQPIPE_REQUIRE_GPU=1."""
    if item.get_closest_marker("gpu") is None:
        return
    missing = missing_gpu()
    if missing and required():
        pytest.fail(f"SEQPIPE_REQUIRE_GPU=1, but {missing}", pytrace=False)
    if missing:
        pytest.skip(missing)
