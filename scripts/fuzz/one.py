"""One target under atheris, in a process of its own: python -m fuzz.one TARGET [libFuzzer's flags and folders]"""

from __future__ import annotations

import sys

import atheris

# Those that read bytes, the parsers of others among them; atheris follows what is imported within.
with atheris.instrument_imports(include=["lightbox", "PIL", "werkzeug.sansio", "numpy.lib.format", "zipfile", "csv"]):
    from fuzz.targets import TARGETS

if __name__ == "__main__":
    atheris.Setup([sys.argv[0], *sys.argv[2:]], TARGETS[sys.argv[1]].check)
    atheris.Fuzz()
