// What the processes ran on and with: first what differs.

function showEnvironment(job) {
  const into = section("environment"), facts = job.environment;
  const skew = job.diagnosis.findings.filter((finding) => finding.kind === "environment_skew");
  const differing = facts.filter((fact) => fact.count > 1), equal = facts.filter((fact) => fact.count === 1);
  // Hosts and GPUs differ as a rule.
  const telling = differing.filter((fact) => !["host", "GPU", "node of the scheduler"].includes(fact.what));
  into.append(el("p", {class: "lead"}, telling.length === 0 && skew.length === 0 ? "All ranks have the same versions and the same command." : `Ranks differ in ${[...new Set([...telling.map((fact) => fact.what), ...skew.map(() => "what a finding names")])].join(", ")}.`));
  for (const finding of skew) into.append(el("p", {class: "skew"}, `\u25b6 ${finding.summary}`));
  const usual = differing.filter((fact) => !telling.includes(fact));
  into.append(factTable("Environment", [...telling, ...equal], telling));
  for (const fact of usual)
    into.append(el("details", {open: fact.count <= 2}, el("summary", {}, `${fact.what}: ${plural(fact.count, "value")}`), factTable(fact.what, [fact], [])));
}

function factTable(caption, facts, telling) {
  const rows = facts.flatMap((fact) => fact.values.map((one, i) => ({
    class: telling.includes(fact) ? "differs" : "",
    cells: [i === 0 ? (telling.includes(fact) ? `\u2260 ${fact.what}` : fact.what) : "", one.value, one.ranks.length > 60 ? `${one.ranks.slice(0, 57)}...` : one.ranks]})));
  return table(caption, ["what", "value", "ranks"], rows);
}
