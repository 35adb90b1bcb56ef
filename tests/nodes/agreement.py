"""What every node of a job tells, and whether it is the same: on all nodes, in what was printed, and offline."""

import datetime
import json
import re
import time

from cluster import Failure

import faults  # of ../scenarios


def check_same(documents, want, culprit):
    """Every node tells the same, and the right thing."""
    for host, document in documents.items():
        faults.check_finding(document, want, culprit, f"diagnosis.json of {host}")
    first = json.dumps(next(iter(documents.values())), sort_keys=True)
    for host, document in documents.items():
        if json.dumps(document, sort_keys=True) != first:
            raise Failure(f"{host} tells something else:\n{json.dumps(document, indent=1)}\n{first}")


def differ_in_logs_alone(documents):
    judged = [{**document, "findings": faults.as_judged(document["findings"])} for document in documents]
    return any(document != documents[0] for document in documents) and all(one == judged[0] for one in judged)


def verdicts(job, want, nodes, patient=False):
    """The documents of those nodes once all have the verdict; None before. patient: a suspicion may come before it."""
    documents, latest = {}, 0
    for number in nodes:
        found = job.diagnosis(number)
        if not found:
            return None
        written, document = found
        findings = document["findings"]
        if not findings or (findings[0]["kind"] == want["kind"] and findings[0]["certainty"] != want["certainty"]):
            return None
        if patient and findings[0]["kind"] != want["kind"] and findings[0]["certainty"] == "suspected":
            return None
        documents[job.cluster.nodes[number].host] = document
        latest = max(latest, written)
    if differ_in_logs_alone(list(documents.values())):
        return None  # the hub is about to tell it again, with what a machine has logged
    if patient and len({json.dumps(document, sort_keys=True) for document in documents.values()}) > 1:
        return None  # some have judged by what they see, and have not been told yet
    return documents, latest


def all_seen(found, ranks):
    """Every rank has been seen, and the record of every call in question."""
    return found and all(document["coverage"]["watched"] == ranks and
                         all(call["op"] or call["state"] in ("not_called", "not_observed")
                             for call in document["findings"][0]["calls"]) for document in found[0].values())


def said_in(job, want, nodes):
    """The documents of those nodes, once they are what was printed."""
    found = verdicts(job, want, nodes, patient=True)
    return found and job.printed(next(iter(found[0].values()))["findings"][0]["summary"]) and found[0]


def check_said_once(job, finding, where, apart=False):
    """In full by one leader of the job; in the files it may say more later, once nodes have come to another hub. apart:
    nodes may have lost one another for a while, each part has a hub then, and none says it twice."""
    headline = f"{finding['kind']} ({finding['certainty']}): "
    said = [line for line in job.said() if headline in line and "said in full by" not in line]
    if len(said) != 1 and not (apart and said and len(set(said)) == len(said)):
        raise Failure(f"{where}: the verdict was printed in full {len(said)} times\n{job.output()[-6000:]}")


CLOCKS_S = 0.005  # what the estimates of two nodes' clocks may be off, and the rounding to milliseconds
AN_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
A_TIME = re.compile(r"\b\d+(\.\d+)? m?s\b")


def same_but_for_clocks(one, other):
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= CLOCKS_S
    if isinstance(one, str) and isinstance(other, str) and AN_INSTANT.fullmatch(one) and AN_INSTANT.fullmatch(other):
        apart = datetime.datetime.fromisoformat(one[:-1]) - datetime.datetime.fromisoformat(other[:-1])
        return abs(apart.total_seconds()) <= CLOCKS_S
    if isinstance(one, str) and isinstance(other, str):
        return A_TIME.sub("T", one) == A_TIME.sub("T", other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_but_for_clocks(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_but_for_clocks, one, other))
    return one == other


def same_findings(one, other):
    return same_but_for_clocks(faults.as_judged(one["findings"]), faults.as_judged(other["findings"]))


def check_offline(job, live, nodes, exact=True):
    """The run directories of all nodes, collected, tell the same as the job itself did."""
    status, document = job.offline(job.collect(nodes))
    if status != 1:
        raise Failure(f"diagnose of the collected directories exits with {status}, wanted 1")
    if exact and not same_findings(document, live):
        raise Failure("live and offline findings differ\nlive: " + json.dumps(live["findings"], indent=1) +
                      "\noffline: " + json.dumps(document["findings"], indent=1))
    return document


def settled(job, want, nodes, exact, seconds=60):
    """The documents of those nodes once nothing is on its way to any of them any more; None if that does not come."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = verdicts(job, want, nodes)
        documents = list(found[0].values()) if found else []
        if documents and all(document == documents[0] for document in documents):
            if not exact:
                return found[0]
            _, offline = job.offline(job.collect([job.cluster.nodes[number] for number in nodes]))
            if same_findings(offline, documents[0]):
                return found[0]
        time.sleep(0.1)
    return None


def watched(job):
    return (str(job.ranks), str(job.ranks)) in job.watched()
