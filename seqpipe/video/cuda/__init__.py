"""Decoded surfaces to pixels in GPU memory: conversion kernels and their launch.

CuPy loads with the first converter.
"""

__all__: list[str] = []
