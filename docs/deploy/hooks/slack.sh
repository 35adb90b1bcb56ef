#!/bin/sh
# NCCLWATCH_HOOK=/opt/ncclwatch/hooks/slack.sh: a message to a channel. SLACK_WEBHOOK is the address that Slack gives.
# The verdict comes on standard input, as diagnosis.json. Needs curl and python3.
[ -n "${SLACK_WEBHOOK:-}" ] || exit 0
python3 -c '
import json, sys
document = json.load(sys.stdin)
job = document["job"]
for finding in document["findings"][:1]:
    where = ", ".join(sorted({str(one["node"] or one["host"]) for one in finding["culprit_details"]}))
    text = "*%s* (%s), job %s, attempt %s\n%s" % (finding["kind"], finding["certainty"], job["name"], job["attempt"], finding["summary"])
    print(json.dumps({"text": text + ("\nnodes: " + where if where else "")}))
' | curl -s -S -m 20 -H 'Content-Type: application/json' -d @- "$SLACK_WEBHOOK" >/dev/null
