"""``nvidia.dali.plugin.tf``: not here; what is asked of it says what to do."""

from __future__ import annotations

from typing import NoReturn

from ...errors import BackendError

__all__: list[str] = []


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    raise BackendError(
        f"there is no {name} for TensorFlow",
        source="seqpipe.dali.plugin.tf",
        advice="Make a data set of the pipeline: tf.data.Dataset.from_generator, of pipe.run() and as_array()",
    )
