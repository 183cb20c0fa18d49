"""Runs one target under atheris, in its own process: python -m fuzz.one TARGET [libFuzzer's flags and folders]"""

from __future__ import annotations

import sys

import atheris

# The modules that read bytes, including third-party parsers; atheris instruments the imports within.
with atheris.instrument_imports(include=["lightbox", "PIL", "werkzeug.sansio", "numpy.lib.format", "zipfile", "csv"]):
    from fuzz.targets import TARGETS

if __name__ == "__main__":
    atheris.Setup([sys.argv[0], *sys.argv[2:]], TARGETS[sys.argv[1]])
    atheris.Fuzz()
