"""Golden hashes: what data sets, chains, operators and programs give, recorded once and compared after every change.

``python -m tests.golden`` compares, ``python -m tests.golden --record`` writes ``hashes.json``. The code that builds
data sets stands in ``jobs``; that package alone is rewritten when their API changes, and the hashes stay.
"""
