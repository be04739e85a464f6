"""Results of programs as nested lists of arrays, numbers and texts, which can be compared and pickled."""

import pickle
import sys
import warnings

import numpy as np


def plain_value(value):
    """The result of a program as lists, arrays and texts, with the types and layouts of outputs."""
    if type(value).__name__.startswith("TensorList"):
        return ["list", str(value.dtype), value.layout().replace("*", ""), [np.array(one) for one in value]]
    if type(value).__name__.startswith("Tensor") and hasattr(value, "layout") and callable(value.layout):
        return ["tensor", str(value.dtype), value.layout().replace("*", ""), np.array(value)]
    if hasattr(value, "numpy"):
        dense = value.to_dense() if value.is_sparse else value
        return ["torch", str(value.dtype), dense.cpu().numpy().copy()]
    if isinstance(value, dict):
        return {key: plain_value(one) for key, one in value.items()}
    return [plain_value(one) for one in value] if isinstance(value, (list, tuple)) else value


def run_all(programs, folder):
    """The result of each program by its name; of one that fails, the type and the text of the error."""
    warnings.simplefilter("ignore")
    found = {}
    for name, f in programs.items():
        try:
            found[name] = plain_value(f(folder))
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


def main(programs):
    """Run the programs on the folder of the first argument, and pickle the results to the second one's file."""
    with open(sys.argv[2], "wb") as file:
        pickle.dump(run_all(programs, sys.argv[1]), file)
