// What each side of the first finding did, side by side, and the calls before.

const COMPARED = ["op", "count", "dtype", "reduction", "root"];
const CALLS_SHOWN = 4;  // before the one in question

function showDifferences(job, processes) {
  const into = section("differences"), findings = job.diagnosis.findings.filter((finding) => finding.calls.length > 0);
  if (findings.length === 0) {
    into.append(el("p", {class: "note"}, "No finding is about single calls."));
    return;
  }
  listed(findings, 2, (finding) => sideBySide(job, finding, processes), into.appendChild(el("div")));
}

function sideBySide(job, finding, processes) {
  const calls = finding.calls.slice(0, 8), culprits = new Set(finding.culprits);
  const isCulprit = (call) => call.ranks.length > 0 && call.ranks.every((rank) => culprits.has(rank));
  const head = (call) => ({text: (isCulprit(call) ? "\u25b6 " : "") + ranksText(call.ranks), class: isCulprit(call) ? "culprit" : null});
  const rows = [];
  const add = (name, value) => {
    const values = calls.map(value);
    if (values.some((one) => one !== "" && one !== null && one !== undefined)) rows.push(rowOf(name, values));
  };
  for (const key of COMPARED) add(key === "op" ? "operation" : key === "dtype" ? "type" : key, (call) => call[key] === null ? "" : typeof call[key] === "number" ? whole(call[key]) : call[key]);
  add("with", (call) => call.peer ? `rank ${call.peer.rank ?? call.peer.communicator_rank}` : "");
  const places = new Set(calls.map((call) => `${call.communicator}#${call.position}`));
  if (places.size > 1) add("where", (call) => `${communicatorText(call.communicator)} #${call.position}`);
  add("state", (call) => stateText(call.state) + (call.result && call.result !== "success" ? `: ${call.result}` : ""));
  add("since", (call) => seconds(call.elapsed_s));
  add("called from", (call) => siteText(call.site, call.site_text));
  const before = historyOf(finding, calls, processes);
  const where = finding.communicator ? `Call ${finding.position === null ? "" : `#${whole(finding.position)} `}of communicator ${communicatorText(finding.communicator.id, finding.communicator.label)}, ${plural(finding.communicator.size, "rank")}` : plainKind(finding.kind);
  return el("div", {}, el("p", {class: "lead"}, `${where}. \u2260 marks what differs.`),
    table(where, ["", ...calls.map(head)], [...rows, ...before]));
}

function rowOf(name, values) {
  const told = values.filter((value) => value !== ""), differs = COMPARED.includes(name === "operation" ? "op" : name === "type" ? "dtype" : name) && new Set(told).size > 1;
  return {class: differs ? "differs" : "", cells: [differs ? `\u2260 ${name}` : name, ...values.map((value) => value === "" || value === null ? "\u2013" : value)]};
}

// The same communicator just before, of the first rank of each side.
function historyOf(finding, calls, processes) {
  if (!finding.communicator || finding.position === null || calls.some((call) => call.peer)) return [];
  const id = finding.communicator.id, sides = calls.map((call) => processes.find((process) => call.ranks.includes(process.rank)));
  const rows = [];
  for (let position = Math.max(0, finding.position - CALLS_SHOWN); position <= finding.position; ++position) {
    const cells = sides.map((process) => {
      if (!process) return "";
      const [call] = membersAt([process], id, position);
      return call ? callText(call.process.row(call.i)) : "";
    });
    if (cells.some(Boolean)) rows.push({class: position === finding.position ? "now" : "before", cells: [`#${whole(position)}`, ...cells.map((cell) => cell || "\u2013")]});
  }
  return rows;
}
