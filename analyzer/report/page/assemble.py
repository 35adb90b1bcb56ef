#!/usr/bin/env python3
"""The page without its data, as C++: assemble.py --d3 FILE --licence FILE --diagnoses FILE --out FILE. One style, one script: what a browser opens
from a disk may load nothing."""

import argparse
import json
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
# Functions and classes are known in the whole script; constants are used once all are there.
SCRIPTS = ["elements", "texts", "theme", "calls", "verdict", "waits", "focus", "timeline_view", "timeline_paint", "timeline_overlay",
           "call_details", "timeline", "differences", "stack_tree", "progress", "steps", "ideal", "peers", "environment", "coverage", "search", "main"]
PIECE = 8000  # characters of one literal: compilers take only so many


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def kind_texts(path):
    """Of each kind: how it looks, and how it is decided."""
    texts = {}
    for part in re.split(r"^## ", read(path), flags=re.MULTILINE)[1:]:
        kind, text = part.split("\n", 1)
        told = [" ".join(one.split()) for one in text.split("\n\n") if one.startswith(("\n*Looks like:*", "*Looks like:*", "*Decided:*"))]
        plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", one).replace("*", "") for one in told]
        if plain:
            texts[kind] = plain
    if len(texts) < 20:
        raise SystemExit(f"assemble.py: {path} explains only {len(texts)} kinds")
    return texts


def page(d3, licence, diagnoses):
    text = read(os.path.join(HERE, "page.html"))
    parts = {"/* @STYLE@ */": read(os.path.join(HERE, "style.css")), "/* @D3@ */": read(d3),
             "@LICENCE@": read(licence).replace("&", "&amp;").replace("<", "&lt;"),
             "/* @SCRIPT@ */": "\n".join([f"const KIND_TEXTS = {json.dumps(kind_texts(diagnoses))};"] +
                                          [read(os.path.join(HERE, name + ".js")) for name in SCRIPTS])}
    for mark, part in parts.items():
        if mark in ("/* @D3@ */", "/* @SCRIPT@ */") and re.search(r"</script|<!--", part, re.IGNORECASE):
            raise SystemExit(f"assemble.py: {mark}: the part ends its own element")
        if text.count(mark) != 1:
            raise SystemExit(f"assemble.py: {mark} is in page.html {text.count(mark)} times")
        text = text.replace(mark, part)
    return text.split("<!-- @DATA@ -->\n")


def literal(text):
    escaped = []
    for i in range(0, len(text), PIECE):
        piece = text[i:i + PIECE].encode()
        escaped.append('"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in piece) + '"')
    return "\n".join(escaped)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--d3", "--licence", "--diagnoses", "--out"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    before, after = page(options.d3, options.licence, options.diagnoses)
    with open(options.out, "w", encoding="ascii") as file:
        file.write('// Made by assemble.py.\n#include "analyzer/report/page_text.h"\n\nnamespace ncclwatch::analyzer::page {\n')
        for name, text in (("kBeforeData", before), ("kAfterData", after)):
            file.write(f"const std::string_view {name} =\n{literal(text)};\n")
        file.write("}  // namespace ncclwatch::analyzer::page\n")


if __name__ == "__main__":
    main()
