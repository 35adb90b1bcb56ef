#!/usr/bin/env python3
"""Reads diagnosis.json and prints the node that should be taken out of use, as NODE REASON, or nothing.

Two things point at a machine: it is no longer heard from, or a process is stuck in its kernel (a driver, a file system). A
stopped process (kill -STOP), a GPU behind a kernel that never ends, a rank that died: the program or its user may have done
that, and the node stays.
"""

import json
import re
import sys

# kind -> what its evidence says if the machine is meant.
SIGNS = {"dead_rank": "has not been heard from for", "frozen_process": "is stuck in the kernel"}
# The name comes from the job's environment. `ALL`, `gpu[1-99]` and `--all` mean more than one node.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def nodes_of(finding):
    sign = SIGNS.get(finding["kind"])
    said = [finding["summary"], *finding["evidence"]]
    if finding["certainty"] not in ("certain", "likely") or not sign or not any(sign in text for text in said):
        return set()
    return {culprit["node"] for culprit in finding["culprit_details"]}


def main():
    for finding in json.load(sys.stdin)["findings"][:1]:
        nodes = nodes_of(finding)
        # Several nodes at once: rather the network between them.
        if len(nodes) != 1:
            return
        node = nodes.pop() or ""
        if NAME.fullmatch(node) and node.upper() != "ALL":
            print(f"{node} ncclwatch:{finding['kind']}")


if __name__ == "__main__":
    main()
