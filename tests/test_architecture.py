"""The layers of seqpipe and what each may import, the modules that may name a library, and rules for the code.

The tables below are the rule. Every check also runs on small packages with one fault each, and must find it.
"""

from __future__ import annotations

import gc
import importlib
import subprocess
import sys
from functools import partial
from importlib.resources import files
from pathlib import Path

import pytest

import seqpipe

from .support import architecture as arch
from .support.architecture import Layer, Package
from .support.media import made

ROOT = Path(__file__).resolve().parents[1]

# The packages of videos, each row of which imports only rows above it.
VIDEO = (
    ("source",),
    ("bitstream",),
    ("probe", "packet_index"),
    ("audio",),
    ("tables",),
    ("device", "cuda.memory", "nvdec.cuvid"),
    ("convert",),
    ("plan",),
    ("decode",),
    ("index",),
    ("nvdec", "cuda"),
    ("engine",),
    ("byte_streams", "frame_stream"),
    ("first_pass", "reader", "stream"),
    ("encode",),
)
# The packages of operators, likewise: the model, calls, families, what is made of several.
OPS = (
    ("core",),
    ("cuda",),
    ("call",),
    ("geometry", "temporal"),
    ("arrays", "batch", "color", "compression", "erasing", "filters", "noise", "random", "resize"),
    ("labels", "motion", "statistics", "volume"),
    ("compose", "policies"),
)
# The packages of volumes and of the command line, likewise.
VOLUME = (
    ("space", "info", "source"),
    ("formats", "regrid", "pictures", "disk"),
    ("reader",),
    ("export", "labels", "patches"),
)
CLI = (
    ("messages", "options", "shard"),
    ("indexing", "inputs", "standard_input"),
    ("manifest", "sheet"),
    ("request", "selection", "source_plan", "stream_selection"),
    ("claims", "record"),
    ("work",),
    ("copies", "exporters"),
    ("run",),
    ("commands",),
    ("app",),
)
BESIDE_OPS = ("video", "volume", "images", "readers")

# A layer imports only layers above it. Readers and operators never see each other.
LAYERS = (
    Layer("core", ("errors", "array", "random", "core")),
    Layer("vocabulary", ("sequence", "parts")),
    Layer("resampling", ("resampling",)),
    # what flow is made of and good for; the operator that computes it is one of ops
    Layer("flow", ("flow",)),
    Layer("sampling", ("sampling",), never=("flow",)),
    *(Layer(f"video {layer[0]}", tuple(f"video.{name}" for name in layer)) for layer in VIDEO),
    Layer("video", ("video",)),
    *(Layer(f"volume {layer[0]}", tuple(f"volume.{name}" for name in layer)) for layer in VOLUME),
    Layer("volume", ("volume",)),
    Layer("images", ("images",)),
    Layer("readers", ("readers",)),
    *(Layer(f"ops {layer[0]}", tuple(f"ops.{name}" for name in layer), never=BESIDE_OPS) for layer in OPS),
    Layer("ops", ("ops",), never=BESIDE_OPS),
    Layer("recipes", ("recipes",), never=BESIDE_OPS),
    Layer("view", ("view",), never=("readers",)),
    Layer("pipeline", ("pipeline",)),
    Layer("writers", ("writers",), never=("readers", "ops", "pipeline")),
    Layer("dataset", ("dataset",)),
    Layer("sources", ("sources",)),
    Layer("segmentation", ("segmentation",)),
    Layer("fn", ("fn",)),
    Layer("front", ("",)),
    Layer("torch", ("torch",)),
    Layer("dali", ("dali",)),
    Layer("ray", ("ray",)),
    *(Layer(f"cli {layer[0]}", tuple(f"cli.{name}" for name in layer), never=("fn",)) for layer in CLI),
    Layer("cli", ("cli", "__main__"), never=("fn",)),
)

# library → the only modules in which it is named
HOMES = {
    "av": ("video",),
    "torch": ("array", "dali.plugin.pytorch", "torch", "volume.formats.array_files"),
    "cupy": ("array", "core.kernel", "flow.nvofa"),
    "nvidia": ("writers.gpu_jpeg",),
    "jax": ("dali.plugin.jax", "dataset.arrays"),
    "tensorflow": ("dali.plugin.tf",),
    "lightning": (),
    "ray": ("ray",),
    **dict.fromkeys(
        (
            "nibabel",
            "SimpleITK",
            "pydicom",
            "highdicom",
            "nrrd",
            "h5py",
            "zarr",
            "blosc2",
            "tifffile",
            "imageio",
            "torchio",
            "monai",
        ),
        ("volume", "images"),
    ),
    "PIL": ("volume", "images", "video.source.stills"),
    **dict.fromkeys(("click", "rich"), ("cli",)),
    # locks may be anywhere; what starts threads may not
    **dict.fromkeys(
        ("threading.Thread", "threading.Timer"),
        ("core.workers", "pipeline.executor", "dali.sources.processes"),
    ),
    "multiprocessing": (
        "video.engine.child",
        "video.engine.children",
        "video.engine.backend",
        "pipeline.executor",
        "dali.sources.processes",
        "dataset.calls",
        "core.threads",
    ),
    # futures carry what threads give; none of these is ThreadPoolExecutor's
    "concurrent.futures": (
        "core.threads",
        "video.engine.engine",
        "core.workers",
        "pipeline.executor",
        "dali.sources.processes",
        "dataset.calls",
        "segmentation.each_case",
        "sources.items",
    ),
    **dict.fromkeys(("random", "secrets", "numpy.random"), ("random", "sampling", "ops")),
    "seqpipe.random": ("resampling", "sampling", "ops", "dali"),
    "seqpipe.core.philox": ("ops",),
}

CHECKS = {
    "layers": partial(arch.every_module_has_a_layer, layers=LAYERS),
    "order": partial(arch.imports_go_to_layers_above, layers=LAYERS),
    "cycles": arch.imports_have_no_cycle,
    "libraries": partial(arch.libraries_stay_in_their_modules, homes=HOMES),
    "exports": arch.exports_are_sorted_and_complete,
    "sizes": partial(arch.sizes_are_small, file_lines=600, function_lines=60),
    # DALI's names are DALI's; operators of fn.random are classes by the names of their functions
    "types": partial(arch.types_have_names_of_their_own, but=("dali", "ops.random")),
    "classes": arch.classes_are_made_by_any_python,
    "unfinished": arch.nothing_is_swallowed_or_unfinished,
    "documented": arch.public_names_are_documented,
}

HEAD = '"""A module."""\n__all__ = []\n'
LONG = HEAD + "def _f():\n" + '    """Doc\n' + "    more\n" * 80 + '    """\n' + "    x = 1\n" * 61

# (check, files of a package with one fault, a piece of what the check must say)
FAULTS = [
    ("layers", {"cellar.py": HEAD}, "cellar.py: belongs to no layer"),
    (
        "order",
        {"video/a.py": HEAD + "from ..readers import b\n", "readers/b.py": HEAD},
        "video imports readers",
    ),
    (
        "order",
        {"errors.py": HEAD + "def _f():\n    from .sampling import order\n", "sampling/order.py": HEAD},
        ":4:",
    ),
    ("order", {"ops/a.py": HEAD + "import seqpipe.video.b\n", "video/b.py": HEAD}, "ops must not see video"),
    ("order", {"readers/a.py": HEAD + "from .. import open\n", "__init__.py": HEAD}, "readers imports front"),
    (
        "cycles",
        {"video/a.py": HEAD + "from . import b\n", "video/b.py": HEAD + "from .a import f\n"},
        "video.a, video.b",
    ),
    (
        "cycles",
        {
            "a.py": HEAD + "from .b import x\n",
            "b.py": HEAD + "from .c import x\n",
            "c.py": HEAD + "from .b import x\n",
        },
        "among: b, c",
    ),
    ("libraries", {"readers/a.py": HEAD + "from av.container import open\n"}, "av is named outside of video"),
    ("libraries", {"sequence.py": HEAD + "def _f():\n    import torch.nn\n"}, ":4: torch is named"),
    (
        "libraries",
        {"video/cpu.py": HEAD + "from concurrent.futures import Future\n"},
        "concurrent.futures is named",
    ),
    ("libraries", {"video/cpu.py": HEAD + "from concurrent import futures\n"}, "concurrent.futures is named"),
    (
        "libraries",
        {"video/cpu.py": HEAD + "import numpy as np\n_R = np.random.default_rng()\n"},
        "numpy.random is named",
    ),
    (
        "libraries",
        {"video/cpu.py": HEAD + "from ..random import stream\n", "random.py": HEAD},
        "seqpipe.random is named",
    ),
    (
        "libraries",
        {"cli/a.py": HEAD + "import importlib\nimportlib.import_module('cupy')\n"},
        "cupy is named",
    ),
    (
        "libraries",
        {"video/cpu.py": HEAD + "import numpy as np\n_R = np.random.default_rng\n"},
        "numpy.random is named",
    ),
    ("exports", {"errors.py": '"""A module."""\n'}, "no __all__"),
    ("exports", {"errors.py": HEAD.replace("[]", "['b', 'a']") + "a = b = 1\n"}, "not sorted"),
    ("exports", {"errors.py": HEAD.replace("[]", "['a', 'B']") + "a = B = 1\n"}, "not sorted"),
    ("exports", {"errors.py": HEAD.replace("[]", "['gone']")}, "gone, which does not exist"),
    ("exports", {"errors.py": HEAD + "def hidden(): ...\n"}, "hidden is public"),
    ("sizes", {"errors.py": HEAD + "x = 1\n" * 599}, "601 lines, more than 600"),
    ("sizes", {"errors.py": LONG}, "_f has 61 lines, more than 60"),
    (
        "types",
        {"a.py": HEAD + "class Grid:\n    'Doc.'\n", "b.py": HEAD + "Grid: TypeAlias = tuple[int, int]\n"},
        "Grid names 2 types: seqpipe/a.py:3, seqpipe/b.py:3",
    ),
    ("types", {"a.py": HEAD + "Box = tuple[int, int]\n", "b.py": HEAD + "Box = int | str\n"}, "Box names 2"),
    ("classes", {"errors.py": HEAD + "class _A(B, name='a'):\n    x = 1\n"}, ":3: class _A is given name="),
    ("unfinished", {"errors.py": HEAD + "try:\n    x = 1\nexcept:\n    raise\n"}, ":5: an except"),
    ("unfinished", {"errors.py": HEAD + "try:\n    x = 1\nexcept Exception:\n    pass\n"}, ":5: an except"),
    ("unfinished", {"errors.py": HEAD + "x = 1  # TODO" + ": later\n"}, ":3: x = 1"),
    ("unfinished", {"errors.py": HEAD + "print(1)\n"}, "print() in library code"),
    (
        "unfinished",
        {"errors.py": HEAD + "def _f():\n    raise NotImplementedError\n"},
        "stands for something missing",
    ),
    ("documented", {"errors.py": "__all__ = []\n"}, "errors.py: no docstring"),
    ("documented", {"errors.py": HEAD + "class Bare:\n    x = 1\n"}, "Bare has no docstring"),
    (
        "documented",
        {"errors.py": HEAD + "class A:\n    'Doc.'\n    def go(self): ...\n"},
        "go has no docstring",
    ),
]


def package_of(folder: Path, sources: dict[str, str]) -> Package:
    for name, text in sources.items():
        path = folder / "seqpipe" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Package(folder / "seqpipe")


def test_seqpipe_keeps_its_rules():
    """All of them at once: half of the time is for parsing, in each process that has one of the checks."""
    gc.disable()  # which would search a million nodes again and again, all of them needed
    try:
        package = Package(ROOT / "seqpipe")
        faults = [f"{name}: {fault}" for name, check in CHECKS.items() for fault in check(package)]
    finally:
        gc.enable()
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("check", "sources", "said"), FAULTS, ids=[f"{i}-{f[0]}" for i, f in enumerate(FAULTS)]
)
def test_a_check_finds_its_fault(tmp_path, check, sources, said):
    faults = CHECKS[check](package_of(tmp_path, sources))
    assert len(faults) == 1, faults
    assert said in faults[0]


def test_every_check_has_a_fault_to_find():
    assert {check for check, _, _ in FAULTS} == set(CHECKS)


def test_checks_are_quiet_on_a_sound_package(tmp_path):
    sources = {
        "errors.py": HEAD.replace("[]", "['MAX', 'Bad', 'f2', 'f10']")
        + "MAX = 1\nclass Bad(Exception):\n    'Doc.'\ndef f2():\n    'Doc.'\ndef f10():\n    'Doc.'\n",
        "random.py": HEAD + "import numpy as np\n_R = np.random.Philox\n",
        "sampling/__init__.py": HEAD,
        "video/__init__.py": HEAD,
        "sampling/order.py": HEAD + "from ..errors import Bad\nfrom ..random import _R\n",
        "video/source.py": HEAD.replace("[]", "['Base', 'File']")
        + "import threading\n_LOCK = threading.Lock()\n"
        + "class Base:\n    'Doc.'\n    def go(self):\n        'Doc.'\n"
        + "class File(Base):\n    'Doc.'\n    def go(self): ...\n",
        "video/cpu.py": HEAD + "import av\nfrom ..errors import MAX\nfrom ..sampling.order import _f\n",
    }
    package = package_of(tmp_path, sources)
    assert [fault for check in CHECKS.values() for fault in check(package)] == []


@pytest.mark.parametrize("name", ["errors", "array", "core.param", "random", "sequence", "pipeline", ""])
def test_exported_names_can_be_fetched(name):
    module = importlib.import_module(f"seqpipe.{name}".rstrip("."))
    missing = [exported for exported in module.__all__ if not hasattr(module, exported)]
    assert not missing


def loaded_by(program: str) -> set[str]:
    """The modules that a Python program imports."""
    # the names go to stderr: the program may write on stdout
    tail = (
        "\nimport atexit, sys\natexit.register(lambda: sys.stderr.write(' '.join(('\\n', *sys.modules))))\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", tail + program], check=True, capture_output=True, text=True, cwd=ROOT
    )
    return set(out.stderr.splitlines()[-1].split())


def test_import_is_light():
    """The errors and no more: some ten modules, most of them the standard library's."""
    loaded = loaded_by("import seqpipe") - loaded_by(
        "import __future__, importlib, pathlib, typing, warnings"
    )
    assert loaded == {
        "seqpipe",
        "seqpipe.errors",
        "seqpipe.core",
        "seqpipe.core.keywords",
        "seqpipe.core.lazy",
    }


HEAVY = {"torch", "cupy", "nibabel", "rich", "fsspec", "asyncio", "ssl", "multiprocessing", "scipy", "PIL"}


def test_the_help_of_the_command_line_is_light():
    loaded = loaded_by(
        "import sys; sys.argv = ['seqpipe', '--help']\nfrom seqpipe.__main__ import main; main()"
    )
    assert "seqpipe.cli.commands.export" in loaded
    assert not loaded & (HEAVY | {"numpy", "av", "cv2", "importlib.metadata"})


def test_a_plain_export_imports_what_it_uses(tmp_path):
    """One frame of an indexed video: half of such a program's time was imports."""
    arguments = [
        *("seqpipe", "export", str(made("h264")), "--frames", "7", "--device", "cpu"),
        *("--out", str(tmp_path / "out"), "--overwrite", "--cache-dir", str(tmp_path / "cache")),
    ]
    program = f"import sys; sys.argv = {arguments!r}\nfrom seqpipe.__main__ import main; main()"
    loaded_by(program)
    loaded = loaded_by(program)
    assert (tmp_path / "out" / made("h264").stem / "000000.jpg").exists()
    assert not loaded & (
        HEAVY | {"numpy.ma", "importlib.metadata", "importlib.resources", "csv", "cv2", "secrets"}
    )
    unused = ("seqpipe.ops", "seqpipe.readers", "seqpipe.pipeline", "seqpipe.flow", "seqpipe.volume.reader")
    assert not [name for name in loaded if name.startswith(unused)]
    assert not loaded & {
        f"seqpipe.cli.exporters.{name}" for name in ("streamed", "volumes", "while_indexing")
    }
    # neither the index's builders nor codecs that the video does not have
    assert not loaded & {
        f"seqpipe.video.{name}"
        for name in ("index.build", "index.from_tables", "bitstream.av1", "engine.children")
    }


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'seqpipe' has no attribute 'reader_of_minds'"):
        _ = seqpipe.reader_of_minds


def test_lazy_names_are_listed():
    assert seqpipe.fn.crop is not None
    assert seqpipe.VideoReader.__module__ == "seqpipe.video.reader"
    assert {"fn", "VideoReader", "open", "readers", "OutputSpec", "Sequence", "Batch"} <= set(dir(seqpipe))


def test_type_marker_is_packaged():
    assert files("seqpipe").joinpath("py.typed").is_file()
    ignored = subprocess.run(
        ["git", "check-ignore", "seqpipe/py.typed"], cwd=ROOT, capture_output=True, text=True
    )
    assert ignored.stdout == "", "hatchling leaves ignored files out of the wheel"
    assert 'packages = ["seqpipe"]' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_top_level_holds_nothing_else():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--", "."], cwd=ROOT, capture_output=True, text=True
    ).stdout
    top = {line.partition("/")[0] for line in listed.splitlines()}
    pages = {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "docs"}
    allowed = {"pyproject.toml", "seqpipe", "tests", "benchmarks", "examples", "data_scripts"} | pages
    assert {name for name in top if not name.startswith(".")} <= allowed
