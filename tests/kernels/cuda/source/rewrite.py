"""Copies a .cu file and the .cuh files below csrc, with __shared__ variables as C++ that g++ takes.

python rewrite.py IN.cu FOLDER writes FOLDER/main.cu, and FOLDER/kernels/... for the headers. Each
shared variable becomes a reference to memory that the engine hands out for the block that runs.
Lines keep their numbers.
"""

import re
import sys
from pathlib import Path

CSRC = Path(__file__).resolve().parents[4] / "csrc"
STATIC = re.compile(
    r"__shared__\s+((?:alignas\([^)]*\)\s+|__align__\(\d+\)\s+)?)([\w:<>,\s]+?[\s>])(\w+)((?:\[[^\]]*\])*);"
)
DYNAMIC = re.compile(
    r"extern\s+__shared__\s+(?:alignas\([^)]*\)\s+|__align__\(\d+\)\s+)?([\w:<>,\s]+?[\s>])(\w+)\[\];"
)


def rewrite(text):
    text = DYNAMIC.sub(r"\1* const \2 = reinterpret_cast<\1*>(emu::shared_window.start);", text)
    text = STATIC.sub(
        r"static const char \3_key = 0; typedef \2 \3_type\4; "
        r"\3_type& \3 = *static_cast<\3_type*>(emu::shared_array(&\3_key, sizeof(\3_type)));",
        text,
    )
    if re.search(r"__shared__", re.sub(r"//[^\n]*", "", text)):
        raise SystemExit("a __shared__ variable in a form that rewrite.py does not know")
    return text


def copy(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(f'#line 1 "{source}"\n{rewrite(source.read_text())}')


def main():
    source, folder = Path(sys.argv[1]), Path(sys.argv[2])
    copy(source, folder / "main.cu")
    for header in CSRC.rglob("*.cuh"):
        copy(header, folder / header.relative_to(CSRC))
    # headers beside the source
    for header in source.parent.glob("*.cuh"):
        copy(header, folder / header.name)


if __name__ == "__main__":
    main()
