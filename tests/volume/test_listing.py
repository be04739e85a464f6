"""Lists of volumes, seqpipe.cases: what is refused, and by which entry; folds of subjects."""

from __future__ import annotations

import pytest

import seqpipe
from seqpipe.errors import ManifestError, ParameterError, SourceError
from seqpipe.readers.volumes.listing import in_fold


def test_a_subject_stays_in_its_fold_from_version_to_version():
    folds = [[k for k in range(5) if in_fold(f"subject{number}", (k, 5))] for number in range(12)]
    assert folds == [[1], [2], [3], [4], [1], [2], [4], [1], [4], [1], [4], [2]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"files": []}, "files is empty; allowed: at least one volume"),
        ({"files": "ab", "labels": ["x"]}, "labels has 1 entries, but there are 2 files"),
        ({"files": "ab", "subjects": ["x"] * 3}, "subjects has 3 entries, but there are 2 files"),
        ({"files": [{"image": "a"}, {"ct": "b"}]}, "b: the parts ct differ from those of the first volume"),
        ({"files": [{"image": "a"}, {"image": "b", "label": "c"}]}, "b: the parts image, label differ"),
        ({"files": ["a", {}]}, r"files\[1\]=\{\} names no files"),
        ({"files": [{"": "a"}]}, r"files\[0\]=\{'': 'a'\} names no files"),
        ({"files": [3]}, "3 is not a path or URL"),
        ({"file_root": "{0}/none"}, "none: no such folder"),
        ({"file_root": "{0}/empty"}, "empty: there is no volume in this folder"),
        (
            {"file_root": "{0}", "labels": ["a"]},
            "labels and file_root exclude one another; allowed: labels with files",
        ),
        ({"file_root": "{0}", "subjects": ["a"]}, "subjects and file_root exclude one another"),
        ({"manifest": "image\n"}, "the manifest lists no volume; allowed: a header and at least one line"),
        ({"manifest": "subject\nAnn\n"}, "line 1.*the columns are 'subject'"),
        ({"manifest": "image,image\na,b\n"}, "line 1.*the columns are 'image', 'image'"),
        ({"manifest": "image,\na,b\n"}, "line 1.*the columns are 'image', ''"),
        ({"manifest": "image,label\n\na,\n"}, "line 3.*does not fill 2 columns"),
    ],
)
def test_lists_that_do_not_fit_are_refused_by_their_entry(tmp_path, options, said):
    (tmp_path / "empty").mkdir()
    options = {k: v.format(tmp_path) if k == "file_root" else v for k, v in options.items()}
    if isinstance(options.get("files"), str):
        options["files"] = [*options["files"]]
    if "manifest" in options:
        (tmp_path / "m.csv").write_text(options["manifest"], encoding="utf-8")
        options["manifest"] = tmp_path / "m.csv"
    with pytest.raises((ManifestError, ParameterError, SourceError), match=said):
        seqpipe.cases(**options)
