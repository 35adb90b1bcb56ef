#!/usr/bin/env python3
"""Reads diagnosis.json and prints the nodes that somebody should look at, a line each: NODE REASON. Nothing unless the first
finding is certain or likely and of a kind that points at a machine rather than at the program."""

import json
import sys

# A dead rank counts only where its node went with it, or the kernel killed it for memory; else the program is to blame.
KINDS = {"device_stall", "transport_stall", "frozen_process"}


def points_at_a_node(finding, culprit):
    if finding["certainty"] not in ("certain", "likely"):
        return False
    if finding["kind"] in KINDS:
        return True
    return finding["kind"] == "dead_rank" and culprit["exit"] is None  # nobody was left there to see how it ended


def main():
    document = json.load(sys.stdin)
    lines = set()
    for finding in document["findings"][:1]:
        for culprit in finding["culprit_details"]:
            node = culprit["node"] or culprit["host"]
            if node and points_at_a_node(finding, culprit):
                gpu = f" {culprit['gpu_uuid']}" if culprit["gpu_uuid"] else ""
                lines.add(f"{node} ncclwatch:{finding['kind']}{gpu}")
    print("\n".join(sorted(lines)), end="\n" if lines else "")


if __name__ == "__main__":
    main()
