// What this page cannot know.

function showCoverage(job) {
  const into = section("coverage"), {coverage, notes, unreadable} = job.diagnosis;
  const lines = [`${whole(coverage.watched)} of ${plural(coverage.expected, "rank")} were watched${coverage.unseen_ranks.length ? `; not seen: ${ranksText(coverage.unseen_ranks)}` : ""}.`];
  const of_rings = job.lost.every((one) => one.of_ring), lost = job.lost.reduce((sum, one) => sum + one.calls, 0);
  if (lost > 0) lines.push(of_rings ? `Rings keep the newest calls: ${plural(lost, "older call")} of ${plural(job.lost.length, "rank")} had been overwritten. A recording (\`ncclwatch run --record\`) keeps all.` : `${plural(lost, "call")} of ${plural(job.lost.length, "rank")} are lost.`);
  if (job.calls.left_out > 0) lines.push(`This page holds the newest calls of each rank; ${plural(job.calls.left_out, "older call")} are left out. \`ncclwatch trace\` has them.`);
  into.append(el("ul", {}, [...lines, ...notes].map((line) => el("li", {}, withCode(line)))));
  if (unreadable.length > 0) into.append(table("Files that could not be read", ["file", "reason"], unreadable.slice(0, 200).map((one) => [one.path, one.reason])));
  if (lost > 0 && !of_rings) into.append(table("Lost calls", ["rank", {text: "calls", number: true}, "which"], job.lost.slice(0, 200).map((one) => [`${one.rank}`, {text: whole(one.calls), number: true}, one.which])));
}
