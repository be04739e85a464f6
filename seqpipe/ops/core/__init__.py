"""The operator model: declaration, parameters, distributions, draws, nodes.

Imports nothing from the other packages of operators.
"""

__all__: list[str] = []
